# solver: WellFormedError the sizes disagree on i_ == to[_
# error: collapse_sum_to: the sizes disagree on i0 == to[0]
#    = i0 == to[0] is 3
#    = i0 == to[0] is 2
#    = x is d0: R.Tensor((3,), dtype="float32")
#    = shape is R.Shape([2])
#    = hint: the line of collapse_sum_to is x[i0] -> y[i0]

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function(private=True)
    def helper_0(x0: R.Tensor(("m", "k"), dtype="float32"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), d2: R.Tensor(("k",), dtype="float32"), unknown: R.Tensor(dtype="float32", ndim=1)) -> R.Tuple(R.Tuple(R.Tuple()), R.Tensor(dtype="float32", ndim=1)):
        m = T.int64()
        k = T.int64()
        n = T.int64()
        with R.dataflow():
            lv3: R.Tuple(R.Tuple()) = ((),)
            gv1: R.Tuple(R.Tuple()) = lv3
            R.output(gv1)
        return (gv1, unknown)

    @R.function(private=True)
    def helper_1(d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), gv2: R.Tensor(("n",), dtype="float32"), gv3: R.Tensor((2, 3), dtype="float32")) -> R.Tensor(("n",), dtype="float32"):
        cls = Module
        n = T.int64()
        m = T.int64()
        @R.function
        def closure(p0: R.Tensor(("m",), dtype="float64"), p1: R.Tuple(R.Tensor(("m",), dtype="float32"), R.Tensor(("m",), dtype="float32"))) -> R.Tuple(R.Tuple(R.Tuple()), R.Tensor(dtype="float32", ndim=1)):
            gv: R.Tuple(R.Tuple(R.Tuple()), R.Tensor(dtype="float32", ndim=1)) = cls.helper_0(R.const([[-0.65142804, 0.9799427]], "float32"), R.const([-0.034343924, 0.37691474], "float32"), R.const([-0.10685017], "float32"), R.const([2.3617997, 0.7125735], "float32"), R.const([-1.2849686, 0.5583035], "float32"))
            gv1: R.Tensor((m,), dtype="float32") = R.collapse_sum_to(d0, (m,))
            gv2_1: R.Tuple(R.Tuple(R.Tuple()), R.Tensor(dtype="float32", ndim=1)) = cls.helper_0(R.const([[1.4233065, -1.4676353]], "float32"), R.const([-1.1804194, -0.86630267], "float32"), R.const([0.6606136], "float32"), R.const([-1.2885786, -1.0756774], "float32"), R.const([1.0833579], "float32"))
            return gv2_1
        gv4: R.Tuple(R.Tuple(R.Tuple()), R.Tensor(dtype="float32", ndim=1)) = cls.helper_0(gv3, d1, d1, gv2, gv2)
        return gv2

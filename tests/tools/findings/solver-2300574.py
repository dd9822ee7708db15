# solver: Unsatisfiable conflicting shapes: expected a size of at least _ found _
# error[E0403]: conflicting shapes: expected a size of at least 2, found 1
#    = note: a constant
#    = note: a constant
#    = note: a constant
#    = note: a constant
#    = note: a constant
#    = note: `gv3` is defined here

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def helper_0(x0: R.Tensor(("n", "n", "n"), dtype="int32"), x1: R.Tensor(("n * k", "n + 1"), dtype="int64"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), d2: R.Tensor(("k",), dtype="float32")) -> R.Tuple(R.Tensor(("n", "n", "n"), dtype="int32"), R.Tensor(("k",), dtype="float32"), R.Tensor(dtype="float32", ndim=2)):
        n = T.int64()
        k = T.int64()
        m = T.int64()
        cast = T.int64()
        with R.dataflow():
            coarse1: R.Tuple(R.Tensor(dtype="float32"), R.Tensor(dtype="float32", ndim=1)) = R.split(d1, indices_or_sections=[1])
            lv1: R.Tensor((2, 3), dtype="float32") = R.atanh(R.const([[0.53125, 0.46875, 0.28125], [0.65625, 0.21875, 0.21875]], "float32"))
            lv3 = R.match_cast(lv1, R.Tensor((cast, 3), dtype="float32"))
            gv: R.Tensor((cast, 3), dtype="float32") = lv3
            R.output(gv)
        return (x0, d2, gv)

    @R.function
    def main(x0: R.Tensor((1, "n + 1", "n"), dtype="int64"), d0: R.Tensor(("n",), dtype="float32"), gv2: R.Tensor(("n",), dtype="float32"), gv5: R.Tensor(("n",), dtype="float32")) -> R.Tensor(("n",), dtype="float32"):
        cls = Module
        n = T.int64()
        @R.function
        def closure(state: R.Tensor((1, "n + 1", "n"), dtype="int64"), step: R.Tensor((), dtype="float32")) -> R.Tuple(R.Tensor((1, "n + 1", "n"), dtype="int64"), R.Tensor(("n",), dtype="float32")):
            gv3: R.Tuple(R.Tensor((1, 1, 1), dtype="int32"), R.Tensor((2,), dtype="float32"), R.Tensor(dtype="float32", ndim=2)) = cls.helper_0(R.const([[[0]]], "int32"), R.const([[2, 0], [2, 2]], "int64"), R.const([0.065013684], "float32"), R.const([0.061175965], "float32"), R.const([1.1603695, -0.25285485], "float32"))
            return (state, d0)
        gv4: R.Tuple(R.Tensor((1, n + 1, n), dtype="int64"), R.Tensor((n, n), dtype="float32")) = R.scan(closure, (x0,), gv2)
        return gv5

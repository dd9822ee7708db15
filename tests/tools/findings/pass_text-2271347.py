# pass_text: WellFormedError dimension mismatch: indices has j_ = _ (axis _ updates has j_ = _ (axis _ pass fold_constant
# error[E0201]: scatter_nd: dimension mismatch: indices has j0 = 2 (axis 0), updates has j0 = 3 (axis 0)
#    = note: j0 = 2 (axis 0): R.Tensor((2, 1), dtype="int64")
#    = note: j0 = 3 (axis 0): R.Tensor((3, 4), dtype="float32")
#    = note: index signature: data[n0, n1], indices[j0, 1], updates[j0, t0] -> y[indices[j0, 0] : n0, t0 : n1]

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function(private=True)
    def helper_1(again: R.Tensor((), dtype="bool"), then: R.Tensor((), dtype="bool"), state: R.Tensor((2, "n * m"), dtype="float32"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32")) -> R.Tensor((2, "n * m"), dtype="float32"):
        cls = Module
        n = T.int64()
        m = T.int64()
        gv1: R.Tensor((2, n * m), dtype="float32") = cls.helper_1(then, R.const(False, "bool"), state, d0, d1)
        return gv1

    @R.function
    def main(gv: R.Tensor(("n", 1), dtype="float32")) -> R.Tensor(("n", 1), dtype="float32"):
        n = T.int64()
        with R.dataflow():
            coarse2: R.Tensor(dtype="float32", ndim=2) = R.eye(3, 4, 1)
            lv1: R.Tensor((3, 4), dtype="float32") = R.scatter_nd(R.const([[-1.0625, 1.5625, -0.8125, 1.3125], [-0.5625, 0.9375, -0.1875, -0.0625], [-0.5625, 1.5625, -1.4375, -1.4375]], "float32"), R.const([[0], [1]], "int64"), coarse2)
            R.output()
        return gv

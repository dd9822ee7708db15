# deduction: Disagreement from ShapeMismatchError gv_ axis _ expected n = _ found _
# a StructInfo does not hold: gv5: axis 0: expected n = 0, found 1

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def helper_0(x0: R.Tensor((1,), dtype="float64"), x1: R.Tensor((2, "n + 1"), dtype="float32"), x2: R.Tensor(("n",), dtype="float32"), d0: R.Tensor(("n",), dtype="float32"), flag: R.Tensor((), dtype="bool"), unknown: R.Tensor(dtype="float32", ndim=1), gv2: R.Tensor((2, "n + 1"), dtype="float32")) -> R.Tensor((2, "n + 1"), dtype="float32"):
        n = T.int64()
        gv5: R.Tensor((n,), dtype="float64") = R.reshape(x0, n)
        return gv2

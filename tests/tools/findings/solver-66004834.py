# solver: Disagreement from ShapeMismatchError gv: axis _ expected n + _ = _ (n = _ found _
# a StructInfo does not hold: gv: axis 1: expected n + 1 = 1 (n = 0), found 4

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x0: R.Tensor(("n + 1",), dtype="int64"), d0: R.Tensor(("n",), dtype="float32"), unknown: R.Tensor(dtype="float32", ndim=2), gv5: R.Tensor((2, 3), dtype="bool")) -> R.Tensor((2, 3), dtype="bool"):
        n = T.int64()
        gv: R.Tensor(dtype="bool", ndim=2) = R.greater_equal(x0, unknown)
        return gv5

# deduction: Disagreement from ShapeMismatchError gv_ axis _ expected n = _ found _
# a StructInfo does not hold: gv2: axis 2: expected n = 0, found 1

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x0: R.Tensor(("n", 2, "n + 1"), dtype="float32"), gv1: R.Tensor(("n + 1", "n", "n * n"), dtype="float32")) -> R.Tensor(("n + 1", "n", "n * n"), dtype="float32"):
        n = T.int64()
        gv2: R.Tensor((n, 2, n), dtype="float32") = R.reshape(x0, (n, 2, n))
        return gv1

# deduction: Disagreement from ShapeMismatchError gv_ axis _ expected _ found _
# a StructInfo does not hold: gv9[2]: axis 0: expected 1, found 0

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(
        gv8: R.Tensor(("m", "m"), dtype="bool"), gv11: R.Tensor((0, 2), dtype="float32")
    ) -> R.Tensor((0, 2), dtype="float32"):
        m = T.int64()
        gv9: R.Tuple(
            R.Tensor((1, m), dtype="bool"),
            R.Tensor((0, m), dtype="bool"),
            R.Tensor((1, m), dtype="bool"),
            R.Tensor((0, m), dtype="bool"),
            R.Tensor((m, m), dtype="bool"),
        ) = R.split(gv8, indices_or_sections=[1, 1, 2, 0])
        return gv11

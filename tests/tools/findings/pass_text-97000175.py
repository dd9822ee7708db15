# pass_text: ParseError dtype mismatch: operands of x_ * reciprocal_i_ are float_ and float_ pass schedule
# error[E0130]: divide: dtype mismatch: operands of x0.flat[i1_i2] * reciprocal_i1_i2 are float64 and float32
#   --> <string>:11:32
#    |
#  7 |     def divide(x0: R.Tensor((2, 2, 1, 1, 1), dtype="float64"), out0: R.Tensor((2, 2, 1, 1, 1), dtype="float64")):
#    |                ---------------------------------------------- x0: R.Tensor((2, 2, 1, 1, 1), dtype="float64")
# ...
# 11 |             out0.flat[i1_i2] = x0.flat[i1_i2] * reciprocal_i1_i2
#    |                                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#    = help: convert one operand: `T.float64(...)`; there is no implicit promotion

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(gv6: R.Tensor(dtype="int64", ndim=2)) -> R.Tensor(dtype="int64", ndim=2):
        gv3: R.Tensor((2, 2, 1, 1, 1), dtype="float64") = R.divide(R.const([[[[[1.0]]], [[[2.0]]]], [[[[2.0]]], [[[2.0]]]]], "float64"), R.const(2.0, "float64"))
        return gv6

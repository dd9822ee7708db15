# pass_text: ParseError `>`: expected numbers, found bool pass lower
# error[E0130]: argmax: `>`: expected numbers, found bool
#   --> <string>:11:16
#    |
#  7 |     def argmax(x0: R.Tensor(("n", 1), dtype="bool"), out0: R.Tensor((), dtype="int64")):
#    |                ------------------------------------ x0: R.Tensor((n, 1), dtype="bool")
# ...
# 11 |             if x0[k3, 0] > total1:
#    |                ^^^^^^^^^^^^^^^^^^
#    = help: convert the operand: `T.float32(x)` or `T.int64(x)`, or compare it: `x != 0`

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function(private=True)
    def helper_0(x0: R.Tensor(("n", 1), dtype="bool"), gv7: R.Tensor(("n", 1), dtype="bool")) -> R.Tensor(("n", 1), dtype="bool"):
        n = T.int64()
        gv1: R.Tensor((), dtype="int64") = R.argmax(x0)
        return gv7

# passes: Disagreement at checks.py:_one_pass pass lower
# lower changes what main computes:
# array([], dtype=float32)
# DiagnosticError('error: pad: index 0 is out of range for axis 0 of x0, which has size 0\n   = x0: R.Tensor((m,), dtype="float32")\n   = hint: indices count from 0; a negative one does not count from the end')

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(d1: R.Tensor(("m",), dtype="float32"), gv2: R.Tensor(("n",), dtype="float32")) -> R.Tensor(("n",), dtype="float32"):
        m = T.int64()
        n = T.int64()
        gv: R.Tensor((m + 2,), dtype="float32") = R.nn.pad(d1, pad_width=[1, 1], pad_mode="circular")
        return gv2

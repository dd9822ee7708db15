# passes: Disagreement at checks.py:_one_pass pass schedule
# schedule changes what main computes:
# array(-0.53220654, dtype=float32)
# DiagnosticError('error: roll: index 0 is out of range for x0.flat, which has size 0\n --> <string>:4:10\n  |\n4 |     v1 = x0.flat[0]\n  |          ^^^^^^^^^^\n  = x0: R.Tensor((0,), dtype="float32")   <string>:2:12\n  = hint: indices count from 0; a negative one does not count from the end')

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x0: R.Tensor((), dtype="int32"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), d2: R.Tensor(("k",), dtype="float32"), unknown: R.Tensor(dtype="float32", ndim=0), lv2: R.Tensor((2, 2, 2), dtype="float32"), gv1: R.Tensor((0,), dtype="float32"), lv3: R.Tensor(("m",), dtype="float32")) -> R.Tensor(dtype="float32", ndim=0):
        n = T.int64()
        m = T.int64()
        k = T.int64()
        gv4: R.Tensor((0,), dtype="float32") = R.roll(gv1, (n,), axis=[0])
        return unknown

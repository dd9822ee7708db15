# rejections: Disagreement at checks.py:_require_rejected
# schedule drops a check of main

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), c: R.Tensor((), "bool")):
        n = T.int64()
        m = T.int64()
        R.require("n == 2")
        if c:
            r = R.sum(R.zeros((n - 3,), "float32"))
        else:
            r = R.sum(x)
        return r

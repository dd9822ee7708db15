# passes: Disagreement at checks.py:_one_pass pass schedule
# schedule changes what main computes: a running sum of truth values counts

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("k", "m"), dtype="bool")) -> R.Tensor(("k", "m"), dtype="float64"):
        k = T.int64()
        m = T.int64()
        y: R.Tensor((k, m), dtype="float64") = R.cumsum(x, axis=1, dtype="float64")
        return y

# shards: Disagreement at agreement.py:require_agreement
# expected array(1., dtype=float32)
# found array(0., dtype=float32)

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def helper_0(x0: R.Tensor(("n + 1", "n"), dtype="float32")) -> R.Tensor((), dtype="float32"):
        n = T.int64()
        gv4: R.Tensor((), dtype="float32") = R.prod(x0)
        return gv4

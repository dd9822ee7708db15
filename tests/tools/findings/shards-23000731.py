# shards: Disagreement at agreement.py:require_agreement
# expected array(True)
# found array(False)

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x0: R.Tensor(("n", "k"), dtype="bool")) -> R.Tensor((), dtype="bool"):
        n = T.int64()
        k = T.int64()
        gv: R.Tensor((), dtype="bool") = R.std(x0)
        return gv

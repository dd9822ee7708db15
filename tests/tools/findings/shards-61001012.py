# shards: Disagreement at agreement.py:require_agreement
# expected array([[False,  True],
#        [False,  True]])
# found array([[False,  True],
#        [False, False]])

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x0: R.Tensor(("n + 1", "n"), dtype="float64"), x1: R.Tensor(("n", "m"), dtype="int32"), x2: R.Tensor(("n", 2), dtype="bool"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), shape: R.Shape(["n", "m + 1"])) -> R.Tensor(("n", 2), dtype="bool"):
        n = T.int64()
        m = T.int64()
        gv: R.Tensor((n, 2), dtype="bool") = R.index_put(x2, (R.const(2, "int64"),), x2)
        return gv

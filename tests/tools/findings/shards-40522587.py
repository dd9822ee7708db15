# shards: Disagreement at comparison.py:require_agreement

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x0: R.Tensor(("m:axis0", "n + 1:axis1"), dtype="uint4"), x1: R.Tensor(("n:axis0", "2:axis1"), dtype="int32"), x2: R.Tensor(("n + 1", "m"), dtype="uint4"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), pair: R.Tuple(any=R.Tensor(("2:axis0",), dtype="float32"), **{"lambda": R.Tensor(("n",), dtype="float32")}), flag: R.Tensor((), dtype="bool")) -> R.Tensor(("n + 1", "m"), dtype="uint4"):
        m = T.int64()
        n = T.int64()
        with R.dataflow():
            lv3: R.Tensor((n + 1, m), dtype="uint4") = R.scatter_elements(x2, x2, x2)
            R.output(lv3)
        return lv3

# rejections: Disagreement at checks.py:_require_rejected

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def helper_0(x0: R.Tensor((1, "n"), dtype="float32"), x1: R.Tensor(("n * m",), dtype="float32"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), flag: R.Tensor((), dtype="bool"), pair: R.Tuple(any=R.Tensor((2, "n"), dtype="float64"), **{"lambda": R.Tensor(("n",), dtype="float32")}), gv3: R.Tensor(("n",), dtype="int64")) -> R.Tensor(("n",), dtype="int64"):
        n = T.int64()
        m = T.int64()
        gv5 = R.match_cast(x1, R.Tensor((2,), dtype="float32"))
        return gv3

# mesh: Disagreement at comparison.py:require_agreement
# expected array(48, dtype=int32)
# found array(47, dtype=int32)

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def helper_0(x0: R.Tensor(("k",), dtype="bool"), x1: R.Tensor((1, "k * n"), dtype="int64"), x2: R.Tensor((), dtype="float64"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), d2: R.Tensor(("k",), dtype="float32")) -> R.Tensor((), dtype="int32"):
        k = T.int64()
        n = T.int64()
        m = T.int64()
        gv1: R.Tensor((), dtype="int32") = R.matmul(d0, d0, out_dtype="int32")
        return gv1

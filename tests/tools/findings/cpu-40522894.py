# cpu: Disagreement at comparison.py:require_agreement

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def helper_0(x0: R.Tensor((), dtype="float32"), x1: R.Tensor(("n",), dtype="float32"), x2: R.Tensor(("n + 1", "n * n"), dtype="float32"), d0: R.Tensor(("n",), dtype="float32"), gv2: R.Tensor((2, 3), dtype="float32")) -> R.Tensor(("2 * n + 2", "n * n"), dtype="float32"):
        n = T.int64()
        with R.dataflow():
            lv1: R.Tensor((2 * n + 2, n * n), dtype="float32") = R.concat_rows(x2, R.const([0, 2, 2], "int64"), R.const([2, 2, 5], "int64"), x2, R.const([0, 1, 3], "int64"), R.const([1, 3, 3], "int64"), R.const([0, 3, 5], "int64"))
            R.output(lv1)
        return lv1

# passes: Disagreement at checks.py:_one_pass pass lower
# lower changes what main computes:
# array([[-0.742188, nan, -0.75]], dtype=bfloat16)
# array([[-0.746094, nan, -0.75]], dtype=bfloat16)

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def helper_0(x0: R.Tensor((1, "n + 1"), dtype="bfloat16"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), number: R.Prim("int64"), pair: R.Tuple(R.Tensor(("n", "n * m"), dtype="float32"), R.Tensor(("n",), dtype="float32"))) -> R.Tensor((1, "n + 1"), dtype="bfloat16"):
        n = T.int64()
        m = T.int64()
        with R.dataflow():
            lv1: R.Tensor((1, n + 1), dtype="bfloat16") = R.asin(x0)
            lv2: R.Tensor((1, n + 1), dtype="bfloat16") = R.subtract(lv1, R.const(0.5, "bfloat16"))
            R.output(lv2)
        return lv2

    @R.function
    def main() -> R.Tensor((1, 3), dtype="bfloat16"):
        cls = Module
        gv3: R.Tensor((1, 3), dtype="bfloat16") = cls.helper_0(R.const([[-0.2421875, 1.265625, -0.2470703125]], "bfloat16"), R.const([1.3158575, 0.7944289], "float32"), R.const([-0.22039063], "float32"), R.prim_value(1), (R.const([[-1.9341727, 0.83264625], [0.28947702, -1.1646966]], "float32"), R.const([1.9674897, 1.1401846], "float32")))
        return gv3

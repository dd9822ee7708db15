# cpu: Disagreement at checks.py:cpu
# interpreted: ShapeMismatchError('median: index 0 is out of bounds for axis 0 with size 0')
# compiled: array([0.], dtype=float32)

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def helper_0(d0: R.Tensor(("n",), dtype="float32")) -> R.Tensor((1,), dtype="float32"):
        n = T.int64()
        with R.dataflow():
            lv1: R.Tensor((1,), dtype="float32") = R.median(d0, keepdims=True)
            lv2: R.Tensor((1,), dtype="float32") = R.nn.softmax(lv1)
            lv3: R.Tensor((1,), dtype="float32") = R.zeros_like(lv2, dtype="float32")
            R.output(lv3)
        return lv3

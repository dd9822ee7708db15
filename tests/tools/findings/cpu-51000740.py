# cpu: Disagreement at checks.py:cpu
# interpreted: array([], dtype=float32)
# compiled: ShapeMismatchError('collapse_sum_like: i2 == to[0]: sizes 2 and 1 do not fit: 2 = 2, unknown0 = 1')

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(d0: R.Tensor(("n",), dtype="float32"), unknown: R.Tensor(dtype="float32", ndim=1), gv1: R.Tensor((1, 2, 2), dtype="float32")) -> R.Tensor(("n",), dtype="float32"):
        n = T.int64()
        with R.dataflow():
            lv5: R.Tensor(dtype="float32", ndim=1) = R.collapse_sum_like(gv1, unknown)
            R.output()
        return d0

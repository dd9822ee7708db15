# cpu: Disagreement at checks.py:cpu
# interpreted: (array([], shape=(0, 0), dtype=float32), array([], shape=(0, 0), dtype=float32))
# compiled: ShapeMismatchError('topk: k0 <= i: sizes 0 and 1 do not fit: 1 <= unknown1 = 0, 1 = 1')

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(unknown: R.Tensor(dtype="float32", ndim=2)) -> R.Tuple(R.Tensor(dtype="float32", ndim=2), R.Tensor(dtype="float32", ndim=2)):
        with R.dataflow():
            lv1: R.Tuple(R.Tensor(dtype="float32", ndim=2), R.Tensor(dtype="float32", ndim=2)) = R.topk(unknown, dtype="float32")
            R.output(lv1)
        return lv1

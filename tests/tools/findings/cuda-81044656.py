# cuda: Disagreement at comparison.py:require_agreement
# expected array([[[65535],
#         [    0],
#         [    0],
#         [27516]]], dtype=uint16)
# found ShapeMismatchError('main: result: expected 3 axes, found 1: shape (3,)')

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x0: R.Tensor((1, "n + 1", 1), dtype="uint16"), x1: R.Tensor((), dtype="float64"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), gv3: R.Tensor((1, "n + 1", 1), dtype="uint16")) -> R.Tensor(dtype="uint16", ndim=3):
        n = T.int64()
        m = T.int64()
        gv4: R.Tensor(dtype="uint16", ndim=3) = R.unique(gv3, axis=0)
        return gv4

# shards: Disagreement at agreement.py:require_agreement
# expected array([[ 1.1875, -1.4375,  0.9375],
#        [ 0.5625,  0.8125, -0.5625],
#        [-1.4375, -0.8125,  0.1875]], dtype=float32)
# found array([[ 1.1875, -1.4375, -1.4375],
#        [ 0.5625,  0.8125, -0.8125],
#        [-1.4375, -0.8125,  0.1875]], dtype=float32)

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main() -> R.Tensor((3, 3), dtype="float32"):
        with R.dataflow():
            lv1: R.Tensor((3, 3), dtype="float32") = R.concat((R.const([[1.1875, -1.4375, 0.9375], [0.5625, 0.8125, -0.5625]], "float32"), R.const([[-1.4375, -0.8125, 0.1875]], "float32")))
            R.output(lv1)
        return lv1

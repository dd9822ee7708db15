# shards: Disagreement at agreement.py:require_agreement
# expected array([ 0.       , -1.6237069, -2.0662956], dtype=float32)
# found array([-1.4375   , -1.6237069, -2.0662956], dtype=float32)

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def helper_0(d2: R.Tensor(("k",), dtype="float32")) -> R.Tensor(("k",), dtype="float32"):
        k = T.int64()
        with R.dataflow():
            lv1: R.Tensor((3, 4), dtype="float32") = R.reverse_sequence(R.const([[-1.0625, 1.5625, -0.8125, 1.3125], [-0.5625, 0.9375, -0.1875, -0.0625], [-0.5625, 1.5625, -1.4375, -1.4375]], "float32"), R.const([1, 3, 0], "int64"))
            R.output()
        gv6: R.Tensor((k,), dtype="float32") = R.cumsum(d2, exclusive=True)
        return gv6

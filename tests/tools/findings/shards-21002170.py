# shards: Disagreement at agreement.py:require_agreement
# expected array([[[0],
#         [0]],
#
#        [[2],
#         [1]]], dtype=int32)
# found array([[[0],
#         [0]],
#
#        [[0],
#         [0]]], dtype=int32)

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def helper_0(
        gv1: R.Tensor(("n",), dtype="float32"), gv2: R.Tensor((2, "n", "m"), dtype="int32")
    ) -> R.Tuple(
        R.Tensor(("n",), dtype="float32"),
        R.Tensor((1, 1), dtype="float32"),
        R.Tensor((2, "n", "m"), dtype="int32"),
    ):
        n = T.int64()
        m = T.int64()
        gv3: R.Tensor((1, 1), dtype="float32") = R.const([[0.0]], "float32")
        return (gv1, gv3, gv2)

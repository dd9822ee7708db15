# cpu: Disagreement at agreement.py:require_agreement
# expected array([[[ True,  True,  True],
#         [ True, False,  True]],
# 
#        [[ True,  True,  True],
#         [ True,  True,  True]],
# 
#        [[ True, False,  True],
#         [ True, False,  True]],
# 
#        [[ True, False,  True],
#         [ True,  True,  True]]])
# found array([[[False,  True, False],
#         [False, False, False]],
# 
#        [[False,  True, False],
#         [False,  True, False]],
# 
#        [[False, False, False],
#         [False, False, False]],
# 
#        [[False, False, False],
#         [False,  True, False]]])

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x1: R.Tensor(("m", 2, 1), dtype="bool")) -> R.Tensor(("m", 2, 3), dtype="bool"):
        m = T.int64()
        gv: R.Tensor((m, 2, 3), dtype="bool") = R.nn.avg_pool1d(x1, strides=[2], padding=[2])
        return gv

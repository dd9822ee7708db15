# solver: Disagreement at checks.py:solver
# a second time gives more:
# from structir.script import I, R, T
# 
# 
# @I.ir_module
# class Module:
#     @R.function
#     def helper_0(x0: R.Tensor(("m", "m"), dtype="float64"), x1: R.Tensor(("n", "n + 1"), dtype="float32"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), unknown: R.Tensor(("d0_1", "d1_1"), dtype="float32"), gv7: R.Tuple(R.Tensor(("m",), dtype="int64"), R.Tensor(("n + 1", "m"), dtype="int32"))) -> R.Tuple(R.Tensor(("m",), dtype="int64"), R.Tensor(("n + 1", "m"), dtype="int32")):
#         m = T.int64()
#         n = T.int64()
#         d0_1 = T.int64()
#         d1_1 = T.int64()
#         found = T.int64()
#         found_1 = T.int64()
#         if R.const(True, "bool"):
#             with R.dataflow():
#                 lv1: R.Tensor(dtype="float32", ndim=2) = R.ones_like(unknown)
#                 gv1: R.Tensor(dtype="float32", ndim=2) = lv1
#                 R.output(gv1)
#             with R.dataflow():
#                 lv2 = R.match_cast(gv1, R.Tensor((found, found_1), dtype="float32"))
#                 R.output()
#             gv3 = x0
#         else:
#             gv3 = x0
#         return gv7
# 
# from structir.script import I, R, T
# 
# 
# @I.ir_module
# class Module:
#     @R.function
#     def helper_0(x0: R.Tensor(("m", "m"), dtype="float64"), x1: R.Tensor(("n", "n + 1"), dtype="float32"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), unknown: R.Tensor(("d0_1", "d1_1"), dtype="float32"), gv7: R.Tuple(R.Tensor(("m",), dtype="int64"), R.Tensor(("n + 1", "m"), dtype="int32"))) -> R.Tuple(R.Tensor(("m",), dtype="int64"), R.Tensor(("n + 1", "m"), dtype="int32")):
#         m = T.int64()
#         n = T.int64()
#         d0_1 = T.int64()
#         d1_1 = T.int64()
#         found = T.int64()
#         found_1 = T.int64()
#         if R.const(True, "bool"):
#             with R.dataflow():
#                 lv1: R.Tensor((d0_1, d1_1), dtype="float32") = R.ones_like(unknown)
#                 gv1: R.Tensor((d0_1, d1_1), dtype="float32") = lv1
#                 R.output(gv1)
#             with R.dataflow():
#                 lv2 = R.match_cast(gv1, R.Tensor((found, found_1), dtype="float32"))
#                 R.output()
#             gv3 = x0
#         else:
#             gv3 = x0
#         return gv7

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def helper_0(x0: R.Tensor(("m", "m"), dtype="float64"), x1: R.Tensor(("n", "n + 1"), dtype="float32"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), unknown: R.Tensor(dtype="float32", ndim=2), gv7: R.Tuple(R.Tensor(("m",), dtype="int64"), R.Tensor(("n + 1", "m"), dtype="int32"))) -> R.Tuple(R.Tensor(("m",), dtype="int64"), R.Tensor(("n + 1", "m"), dtype="int32")):
        m = T.int64()
        n = T.int64()
        found = T.int64()
        found_1 = T.int64()
        if R.const(True, "bool"):
            with R.dataflow():
                lv1: R.Tensor(dtype="float32", ndim=2) = R.ones_like(unknown)
                gv1: R.Tensor(dtype="float32", ndim=2) = lv1
                R.output(gv1)
            with R.dataflow():
                lv2 = R.match_cast(gv1, R.Tensor((found, found_1), dtype="float32"))
                R.output()
            gv3 = x0
        else:
            gv3 = x0
        return gv7

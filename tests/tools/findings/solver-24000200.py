# solver: Disagreement at checks.py:solver
# a second time gives more:
# from structir.script import I, R, T
# 
# 
# @I.ir_module
# class Module:
#     @R.function
#     def main(unknown: R.Tensor(("d0",), dtype="float32")) -> R.Tensor(dtype="float32", ndim=1):
#         d0 = T.int64()
#         found = T.int64()
#         gv8: R.Tensor(dtype="float32", ndim=1)
#         if R.const(True, "bool"):
#             with R.dataflow():
#                 lv7 = R.match_cast(unknown, R.Tensor((found,), dtype="float32"))
#                 R.output()
#             gv8 = unknown
#         else:
#             gv8 = unknown
#         return gv8
# 
# from structir.script import I, R, T
# 
# 
# @I.ir_module
# class Module:
#     @R.function
#     def main(unknown: R.Tensor(("d0",), dtype="float32")) -> R.Tensor(("d0",), dtype="float32"):
#         d0 = T.int64()
#         found = T.int64()
#         if R.const(True, "bool"):
#             with R.dataflow():
#                 lv7 = R.match_cast(unknown, R.Tensor((found,), dtype="float32"))
#                 R.output()
#             gv8 = unknown
#         else:
#             gv8 = unknown
#         return gv8

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(unknown: R.Tensor(dtype="float32", ndim=1)) -> R.Tensor(dtype="float32", ndim=1):
        found = T.int64()
        if R.const(True, "bool"):
            with R.dataflow():
                lv7 = R.match_cast(unknown, R.Tensor((found,), dtype="float32"))
                R.output()
            gv8 = unknown
        else:
            gv8 = unknown
        return gv8

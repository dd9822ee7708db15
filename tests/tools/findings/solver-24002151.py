# solver: Disagreement at checks.py:solver
# a second time gives more:
# from structir.script import I, R, T
# 
# 
# @I.ir_module
# class Module:
#     @R.function(private=True)
#     def helper_0(x0: R.Tensor((), dtype="float32"), x1: R.Tensor(("n",), dtype="int32"), flag: R.Tensor((), dtype="bool"), unknown: R.Tensor(("d0",), dtype="float32"), gv: R.Tuple(R.Tuple())) -> R.Tuple(R.Tuple()):
#         n = T.int64()
#         d0 = T.int64()
#         found = T.int64()
#         if flag:
#             with R.dataflow():
#                 lv: R.Tuple(R.Tensor(dtype="float32", ndim=1)) = (unknown,)
#                 lv1: R.Tuple(R.Tuple(R.Tensor((), dtype="float32"))) = ((x0,),)
#                 gv1: R.Tuple(R.Tuple(R.Tensor((), dtype="float32"))) = lv1
#                 gv2: R.Tuple(R.Tensor(dtype="float32", ndim=1)) = lv
#                 R.output(gv1, gv2)
#             with R.dataflow():
#                 lv2 = R.match_cast(unknown, R.Tensor((found,), dtype="float32"))
#                 gv3: R.Tensor((found,), dtype="float32") = lv2
#                 R.output(gv3)
#             gv5 = x1
#         else:
#             gv4: R.Tensor((2, 3), dtype="int64") = R.left_shift(R.const([[3, 3, 1], [1, 0, 3]], "int64"), R.const([[3, 3, 1], [1, 0, 3]], "int64"))
#             gv5 = x1
#         return gv
# 
# from structir.script import I, R, T
# 
# 
# @I.ir_module
# class Module:
#     @R.function(private=True)
#     def helper_0(x0: R.Tensor((), dtype="float32"), x1: R.Tensor(("n",), dtype="int32"), flag: R.Tensor((), dtype="bool"), unknown: R.Tensor(("d0",), dtype="float32"), gv: R.Tuple(R.Tuple())) -> R.Tuple(R.Tuple()):
#         n = T.int64()
#         d0 = T.int64()
#         found = T.int64()
#         if flag:
#             with R.dataflow():
#                 lv: R.Tuple(R.Tensor((d0,), dtype="float32")) = (unknown,)
#                 lv1: R.Tuple(R.Tuple(R.Tensor((), dtype="float32"))) = ((x0,),)
#                 gv1: R.Tuple(R.Tuple(R.Tensor((), dtype="float32"))) = lv1
#                 gv2: R.Tuple(R.Tensor((d0,), dtype="float32")) = lv
#                 R.output(gv1, gv2)
#             with R.dataflow():
#                 lv2 = R.match_cast(unknown, R.Tensor((found,), dtype="float32"))
#                 gv3: R.Tensor((found,), dtype="float32") = lv2
#                 R.output(gv3)
#             gv5 = x1
#         else:
#             gv4: R.Tensor((2, 3), dtype="int64") = R.left_shift(R.const([[3, 3, 1], [1, 0, 3]], "int64"), R.const([[3, 3, 1], [1, 0, 3]], "int64"))
#             gv5 = x1
#         return gv

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function(private=True)
    def helper_0(x0: R.Tensor((), dtype="float32"), x1: R.Tensor(("n",), dtype="int32"), flag: R.Tensor((), dtype="bool"), unknown: R.Tensor(dtype="float32", ndim=1), gv: R.Tuple(R.Tuple())) -> R.Tuple(R.Tuple()):
        n = T.int64()
        found = T.int64()
        if flag:
            with R.dataflow():
                lv: R.Tuple(R.Tensor(dtype="float32", ndim=1)) = (unknown,)
                lv1: R.Tuple(R.Tuple(R.Tensor((), dtype="float32"))) = ((x0,),)
                gv1: R.Tuple(R.Tuple(R.Tensor((), dtype="float32"))) = lv1
                gv2: R.Tuple(R.Tensor(dtype="float32", ndim=1)) = lv
                R.output(gv1, gv2)
            with R.dataflow():
                lv2 = R.match_cast(unknown, R.Tensor((found,), dtype="float32"))
                gv3: R.Tensor((found,), dtype="float32") = lv2
                R.output(gv3)
            gv5 = x1
        else:
            gv4: R.Tensor((2, 3), dtype="int64") = R.left_shift(R.const([[3, 3, 1], [1, 0, 3]], "int64"), R.const([[3, 3, 1], [1, 0, 3]], "int64"))
            gv5 = x1
        return gv

# solver: Disagreement at checks.py:solver
# a second run infers more:
# from structir.script import I, R, T
# 
# 
# @I.ir_module
# class Module:
#     @R.function
#     def helper_1(x0: R.Tensor((2, 1), dtype="uint64"), d0: R.Tensor(("n",), dtype="float32"), d2: R.Tensor(("k",), dtype="float32"), gv: R.Tensor((1, 1), dtype="float32")) -> R.Tensor((1, 1), dtype="float32"):
#         n = T.int64()
#         k = T.int64()
#         with R.dataflow():
#             lv = R.match_cast(x0, R.Tensor((2, 1), dtype="uint64"))
#             lv1: R.Tensor((n,), dtype="float32") = R.scatter_nd(d0, x0, d2)
#             R.output()
#         return gv
# 
# from structir.script import I, R, T
# 
# 
# @I.ir_module
# class Module:
#     @R.function
#     def helper_1(x0: R.Tensor((2, 1), dtype="uint64"), d0: R.Tensor(("n",), dtype="float32"), d2: R.Tensor((2,), dtype="float32"), gv: R.Tensor((1, 1), dtype="float32")) -> R.Tensor((1, 1), dtype="float32"):
#         n = T.int64()
#         with R.dataflow():
#             lv = R.match_cast(x0, R.Tensor((2, 1), dtype="uint64"))
#             lv1: R.Tensor((n,), dtype="float32") = R.scatter_nd(d0, x0, d2)
#             R.output()
#         return gv

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def helper_1(x0: R.Tensor((2, "m"), dtype="uint64"), d0: R.Tensor(("n",), dtype="float32"), d2: R.Tensor(("k",), dtype="float32"), gv: R.Tensor(("m", 1), dtype="float32")) -> R.Tensor(("m", 1), dtype="float32"):
        m = T.int64()
        n = T.int64()
        k = T.int64()
        with R.dataflow():
            lv = R.match_cast(x0, R.Tensor((2, 1), dtype="uint64"))
            lv1: R.Tensor((n,), dtype="float32") = R.scatter_nd(d0, x0, d2)
            R.output()
        return gv

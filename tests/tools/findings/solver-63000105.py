# solver: Disagreement at checks.py:solver
# a second time gives more:
# from structir.script import I, R, T
# 
# 
# @I.ir_module
# class Module:
#     @R.function(private=True)
#     def helper_0(x0: R.Tensor((0, "n * k"), dtype="float64"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor((0,), dtype="float32"), d2: R.Tensor(("k",), dtype="float32"), gv: R.Tensor(("found", 3), dtype="float32")) -> R.Tensor(("found", 3), dtype="float32"):
#         n = T.int64()
#         k = T.int64()
#         found = T.int64()
#         with R.dataflow():
#             lv3: R.Tensor((0,), dtype="float32") = R.maximum(d2, d1)
#             lv4: R.Tensor((0, 1), dtype="float64") = R.collapse_sum_to(x0, (0, 1))
#             R.output()
#         return gv
# 
# from structir.script import I, R, T
# 
# 
# @I.ir_module
# class Module:
#     @R.function(private=True)
#     def helper_0(x0: R.Tensor((0, "n"), dtype="float64"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor((0,), dtype="float32"), d2: R.Tensor((1,), dtype="float32"), gv: R.Tensor(("found", 3), dtype="float32")) -> R.Tensor(("found", 3), dtype="float32"):
#         n = T.int64()
#         found = T.int64()
#         with R.dataflow():
#             lv3: R.Tensor((0,), dtype="float32") = R.maximum(d2, d1)
#             lv4: R.Tensor((0, 1), dtype="float64") = R.collapse_sum_to(x0, (0, 1))
#             R.output()
#         return gv

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function(private=True)
    def helper_0(x0: R.Tensor(("m", "n * k"), dtype="float64"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), d2: R.Tensor(("k",), dtype="float32"), gv: R.Tensor(("found", 3), dtype="float32")) -> R.Tensor(("found", 3), dtype="float32"):
        m = T.int64()
        n = T.int64()
        k = T.int64()
        found = T.int64()
        with R.dataflow():
            lv3: R.Tensor((T.max(m, k) * T.min(m, k, 1),), dtype="float32") = R.maximum(d2, d1)
            lv4: R.Tensor((m, 1), dtype="float64") = R.collapse_sum_to(x0, (0, 1))
            R.output()
        return gv

# solver: Disagreement at checks.py:solver
# a second time gives more:
# from structir.script import I, R, T
# 
# 
# @I.ir_module
# class Module:
#     @R.function(private=True)
#     def helper_0(x0: R.Tensor(("n + 1", "m"), dtype="float64"), x2: R.Tensor((), dtype="bool"), d0: R.Tensor(("n",), dtype="float32"), unknown: R.Tensor(("d0_1",), dtype="float32"), gv7: R.Tensor((3,), dtype="int64"), gv: R.Tuple(R.Tensor(("d1",), dtype="float32"), R.Tensor(("m", 1), dtype="int32"))) -> R.Tensor((3,), dtype="int64"):
#         n = T.int64()
#         m = T.int64()
#         d0_1 = T.int64()
#         d1 = T.int64()
#         found = T.int64()
#         if x2:
#             gv1: R.Tensor((), dtype="bool") = R.grad.no_grad(x2)
#             gv2 = R.match_cast(unknown, R.Tensor((found,), dtype="float32"))
#             gv3: R.Tensor((m, 1), dtype="int32") = gv[1]
#             gv4 = x0
#         else:
#             gv4 = d0
#         return gv7
# 
# from structir.script import I, R, T
# 
# 
# @I.ir_module
# class Module:
#     @R.function(private=True)
#     def helper_0(x0: R.Tensor(("n + 1", "m"), dtype="float64"), x2: R.Tensor((), dtype="bool"), d0: R.Tensor(("n",), dtype="float32"), unknown: R.Tensor(("d0_1",), dtype="float32"), gv7: R.Tensor((3,), dtype="int64"), gv: R.Tuple(R.Tensor(("d1",), dtype="float32"), R.Tensor(("m", 1), dtype="int32"))) -> R.Tensor((3,), dtype="int64"):
#         n = T.int64()
#         m = T.int64()
#         d0_1 = T.int64()
#         d1 = T.int64()
#         found = T.int64()
#         if x2:
#             gv1: R.Tensor((), dtype="bool") = R.grad.no_grad(x2)
#             gv2: R.Tensor((d0_1,), dtype="float32") = R.match_cast(unknown, R.Tensor((found,), dtype="float32"))
#             gv3: R.Tensor((m, 1), dtype="int32") = gv[1]
#             gv4 = x0
#         else:
#             gv4 = d0
#         return gv7

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function(private=True)
    def helper_0(x0: R.Tensor(("n + 1", "m"), dtype="float64"), x2: R.Tensor((), dtype="bool"), d0: R.Tensor(("n",), dtype="float32"), unknown: R.Tensor(dtype="float32", ndim=1), gv7: R.Tensor((3,), dtype="int64"), gv: R.Tuple(R.Tensor(dtype="float32", ndim=1), R.Tensor(("m", 1), dtype="int32"))) -> R.Tensor((3,), dtype="int64"):
        n = T.int64()
        m = T.int64()
        found = T.int64()
        if x2:
            gv1: R.Tensor((), dtype="bool") = R.grad.no_grad(x2)
            gv2 = R.match_cast(unknown, R.Tensor((found,), dtype="float32"))
            gv3: R.Tensor((m, 1), dtype="int32") = gv[1]
            gv4 = x0
        else:
            gv4 = d0
        return gv7

# solver: Disagreement at checks.py:solver
# a second time gives more:
# from structir.script import I, R, T
# 
# 
# @I.ir_module
# class Module:
#     @I.kernel
#     def kernel0(x0: R.Tensor((1, "m"), dtype="int64"), x1: R.Tensor(("k",), dtype="float32"), number: R.Prim("int64"), y0: R.Tensor(("m", "k"), dtype="float64"), y1: R.Tensor((), dtype="float16")):
#         for i1 in range(m - 1, -1, -1):
#             for i2 in range(x1.shape[0]):
#                 sum3 = T.int64(0)
#                 for j4 in range(x0.shape[0]):
#                     sum3 -= max(number, i1 // i1) // i2
#                 v5 = T.int32(1) * T.int32(x1[i2] >= x1[i2])
#                 y0[i1, i2] = T.tanh(T.float64(1))
#         sum6 = T.int64(0)
#         for j7 in range(k):
#             sum6 -= T.int64(T.int32(1) & T.int32(3)) & j7
#         sum8 = T.float64(0.0)
#         for j9 in range(x0.shape[0]):
#             sum8 -= T.tanh(T.floor(T.float64(0)) + T.float64(2))
#         if T.float32(1) >= T.float32(T.float32(2.5)) - T.tanh(T.float32(1.5)):
#             y1[()] = -T.tanh(T.float32(1.5)) - abs(T.tanh(T.float32(1.5)))
#         else:
#             y1[()] = T.float32(3)
# 
#     @R.function
#     def helper_0(x1: R.Tensor((1, "n * n"), dtype="int64"), x2: R.Tensor(("n + 1", "n + 1", "n * n"), dtype="int32"), unknown: R.Tensor(("d0",), dtype="float32"), gv17: R.Prim("int64", value=2), gv: R.Tensor(("n",), dtype="float32"), gv6: R.Shape([2])) -> R.Prim("int64", value=2):
#         cls = Module
#         n = T.int64()
#         d0 = T.int64()
#         found = T.int64()
#         found_1 = T.int64()
#         if R.const(False, "bool"):
#             with R.dataflow():
#                 lv: R.Tensor((n + 1, n + 1, n * n), dtype="int32") = R.grad.start_checkpoint(x2)
#                 gv7: R.Tensor((n + 1, n + 1, n * n), dtype="int32") = lv
#                 R.output(gv7)
#             with R.dataflow():
#                 lv1: R.Tuple(R.Tensor((n * n, n), dtype="float64"), R.Tensor((), dtype="float16")) = R.call_kernel(cls.kernel0, (x1, gv, R.prim_value(2)), out_sinfo=(R.Tensor((n * n, n), dtype="float64"), R.Tensor((), dtype="float16")))
#                 gv8: R.Tuple(R.Tensor((n * n, n), dtype="float64"), R.Tensor((), dtype="float16")) = lv1
#                 R.output(gv8)
#             with R.dataflow():
#                 lv2: R.Shape([n, n, n]) = R.shape([n, n, n])
#                 gv9: R.Shape([n, n, n]) = lv2
#                 R.output(gv9)
#             gv12 = gv6
#         else:
#             gv10: R.Tensor(dtype="float32", ndim=2) = R.expand_dims(unknown, axis=[0])
#             @R.function
#             def closure(p0: R.Tensor((1, "n * n"), dtype="int64")) -> R.Tuple(R.Tensor(dtype="float32", ndim=2), R.Shape([2])):
#                 return (gv10, gv6)
#             with R.dataflow():
#                 lv3: R.Tensor((1, found_1), dtype="float32") = R.match_cast(gv10, R.Tensor((found, found_1), dtype="float32"))
#                 gv11: R.Tensor((1, found_1), dtype="float32") = lv3
#                 R.output(gv11)
#             gv12 = gv6
#         return gv17
# 
# from structir.script import I, R, T
# 
# 
# @I.ir_module
# class Module:
#     @I.kernel
#     def kernel0(x0: R.Tensor((1, "m"), dtype="int64"), x1: R.Tensor(("k",), dtype="float32"), number: R.Prim("int64"), y0: R.Tensor(("m", "k"), dtype="float64"), y1: R.Tensor((), dtype="float16")):
#         for i1 in range(m - 1, -1, -1):
#             for i2 in range(x1.shape[0]):
#                 sum3 = T.int64(0)
#                 for j4 in range(x0.shape[0]):
#                     sum3 -= max(number, i1 // i1) // i2
#                 v5 = T.int32(1) * T.int32(x1[i2] >= x1[i2])
#                 y0[i1, i2] = T.tanh(T.float64(1))
#         sum6 = T.int64(0)
#         for j7 in range(k):
#             sum6 -= T.int64(T.int32(1) & T.int32(3)) & j7
#         sum8 = T.float64(0.0)
#         for j9 in range(x0.shape[0]):
#             sum8 -= T.tanh(T.floor(T.float64(0)) + T.float64(2))
#         if T.float32(1) >= T.float32(T.float32(2.5)) - T.tanh(T.float32(1.5)):
#             y1[()] = -T.tanh(T.float32(1.5)) - abs(T.tanh(T.float32(1.5)))
#         else:
#             y1[()] = T.float32(3)
# 
#     @R.function
#     def helper_0(x1: R.Tensor((1, "n * n"), dtype="int64"), x2: R.Tensor(("n + 1", "n + 1", "n * n"), dtype="int32"), unknown: R.Tensor(("d0",), dtype="float32"), gv17: R.Prim("int64", value=2), gv: R.Tensor(("n",), dtype="float32"), gv6: R.Shape([2])) -> R.Prim("int64", value=2):
#         cls = Module
#         n = T.int64()
#         d0 = T.int64()
#         found = T.int64()
#         found_1 = T.int64()
#         if R.const(False, "bool"):
#             with R.dataflow():
#                 lv: R.Tensor((n + 1, n + 1, n * n), dtype="int32") = R.grad.start_checkpoint(x2)
#                 gv7: R.Tensor((n + 1, n + 1, n * n), dtype="int32") = lv
#                 R.output(gv7)
#             with R.dataflow():
#                 lv1: R.Tuple(R.Tensor((n * n, n), dtype="float64"), R.Tensor((), dtype="float16")) = R.call_kernel(cls.kernel0, (x1, gv, R.prim_value(2)), out_sinfo=(R.Tensor((n * n, n), dtype="float64"), R.Tensor((), dtype="float16")))
#                 gv8: R.Tuple(R.Tensor((n * n, n), dtype="float64"), R.Tensor((), dtype="float16")) = lv1
#                 R.output(gv8)
#             with R.dataflow():
#                 lv2: R.Shape([n, n, n]) = R.shape([n, n, n])
#                 gv9: R.Shape([n, n, n]) = lv2
#                 R.output(gv9)
#             gv12 = gv6
#         else:
#             gv10: R.Tensor((1, d0), dtype="float32") = R.expand_dims(unknown, axis=[0])
#             @R.function
#             def closure(p0: R.Tensor((1, "n * n"), dtype="int64")) -> R.Tuple(R.Tensor(dtype="float32", ndim=2), R.Shape([2])):
#                 return (gv10, gv6)
#             with R.dataflow():
#                 lv3: R.Tensor((1, found_1), dtype="float32") = R.match_cast(gv10, R.Tensor((found, found_1), dtype="float32"))
#                 gv11: R.Tensor((1, found_1), dtype="float32") = lv3
#                 R.output(gv11)
#             gv12 = gv6
#         return gv17

from structir.script import I, R, T


@I.ir_module
class Module:
    @I.kernel
    def kernel0(x0: R.Tensor((1, "m"), dtype="int64"), x1: R.Tensor(("k",), dtype="float32"), number: R.Prim("int64"), y0: R.Tensor(("m", "k"), dtype="float64"), y1: R.Tensor((), dtype="float16")):
        for i1 in range(m - 1, -1, -1):
            for i2 in range(x1.shape[0]):
                sum3 = T.int64(0)
                for j4 in range(x0.shape[0]):
                    sum3 -= max(number, i1 // i1) // i2
                v5 = T.int32(1) * T.int32(x1[i2] >= x1[i2])
                y0[i1, i2] = T.tanh(T.float64(1))
        sum6 = T.int64(0)
        for j7 in range(k):
            sum6 -= T.int64(T.int32(1) & T.int32(3)) & j7
        sum8 = T.float64(0.0)
        for j9 in range(x0.shape[0]):
            sum8 -= T.tanh(T.floor(T.float64(0)) + T.float64(2))
        if T.float32(1) >= T.float32(T.float32(2.5)) - T.tanh(T.float32(1.5)):
            y1[()] = -T.tanh(T.float32(1.5)) - abs(T.tanh(T.float32(1.5)))
        else:
            y1[()] = T.float32(3)

    @R.function
    def helper_0(x1: R.Tensor((1, "n * n"), dtype="int64"), x2: R.Tensor(("n + 1", "n + 1", "n * n"), dtype="int32"), unknown: R.Tensor(dtype="float32", ndim=1), gv17: R.Prim("int64", value=2), gv: R.Tensor(("n",), dtype="float32"), gv6: R.Shape([2])) -> R.Prim("int64", value=2):
        cls = Module
        n = T.int64()
        found = T.int64()
        found_1 = T.int64()
        if R.const(False, "bool"):
            with R.dataflow():
                lv: R.Tensor((n + 1, n + 1, n * n), dtype="int32") = R.grad.start_checkpoint(x2)
                gv7: R.Tensor((n + 1, n + 1, n * n), dtype="int32") = lv
                R.output(gv7)
            with R.dataflow():
                lv1: R.Tuple(R.Tensor((n * n, n), dtype="float64"), R.Tensor((), dtype="float16")) = R.call_kernel(cls.kernel0, (x1, gv, R.prim_value(2)), out_sinfo=(R.Tensor((n * n, n), dtype="float64"), R.Tensor((), dtype="float16")))
                gv8: R.Tuple(R.Tensor((n * n, n), dtype="float64"), R.Tensor((), dtype="float16")) = lv1
                R.output(gv8)
            with R.dataflow():
                lv2: R.Shape([n, n, n]) = R.shape([n, n, n])
                gv9: R.Shape([n, n, n]) = lv2
                R.output(gv9)
            gv12 = gv6
        else:
            gv10: R.Tensor(dtype="float32", ndim=2) = R.expand_dims(unknown, axis=[0])
            @R.function
            def closure(p0: R.Tensor((1, "n * n"), dtype="int64")) -> R.Tuple(R.Tensor(dtype="float32", ndim=2), R.Shape([2])):
                return (gv10, gv6)
            with R.dataflow():
                lv3 = R.match_cast(gv10, R.Tensor((found, found_1), dtype="float32"))
                gv11: R.Tensor((found, found_1), dtype="float32") = lv3
                R.output(gv11)
            gv12 = gv6
        return gv17

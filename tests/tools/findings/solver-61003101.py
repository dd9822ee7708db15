# solver: Disagreement at checks.py:solver
# a second time gives more:
# from structir.script import I, R, T
# 
# 
# @I.ir_module
# class Module:
#     @R.function(private=True)
#     def helper_0(x0: R.Tensor(("n * n", "n"), dtype="float32"), d0: R.Tensor(("n",), dtype="float32")) -> R.Tuple(R.Tensor((1, 1, "n"), dtype="bool"), R.Tensor((), dtype="float32")):
#         n = T.int64()
#         with R.dataflow():
#             lv: R.Tensor((), dtype="float32") = R.const(1.0, "float32")
#             gv: R.Tensor((), dtype="float32") = lv
#             R.output(gv)
#         with R.dataflow():
#             lv3: R.Tensor((1, 1, n), dtype="bool") = R.less_equal(d0, R.const([[[0.0]]], "float32"))
#             gv3: R.Tensor((1, 1, n), dtype="bool") = lv3
#             R.output(gv3)
#         return (gv3, gv)
# 
#     @R.function(private=True)
#     def helper_1(x0: R.Tensor((2, "n"), dtype="float32"), d2: R.Tensor(("n",), dtype="float32")) -> R.Tensor(dtype="float32", ndim=2):
#         cls = Module
#         n = T.int64()
#         found = T.int64()
#         gv: R.Tuple(R.Tensor((1, 1, n), dtype="bool"), R.Tensor((), dtype="float32")) = cls.helper_0(x0, d2)
#         gv1 = R.match_cast(x0, R.Tensor((2, found), dtype="float32"))
#         return gv1
# 
# from structir.script import I, R, T
# 
# 
# @I.ir_module
# class Module:
#     @R.function(private=True)
#     def helper_0(x0: R.Tensor(("n * n", "n"), dtype="float32"), d0: R.Tensor(("n",), dtype="float32")) -> R.Tuple(R.Tensor((1, 1, "n"), dtype="bool"), R.Tensor((), dtype="float32")):
#         n = T.int64()
#         with R.dataflow():
#             lv: R.Tensor((), dtype="float32") = R.const(1.0, "float32")
#             gv: R.Tensor((), dtype="float32") = lv
#             R.output(gv)
#         with R.dataflow():
#             lv3: R.Tensor((1, 1, n), dtype="bool") = R.less_equal(d0, R.const([[[0.0]]], "float32"))
#             gv3: R.Tensor((1, 1, n), dtype="bool") = lv3
#             R.output(gv3)
#         return (gv3, gv)
# 
#     @R.function(private=True)
#     def helper_1(x0: R.Tensor((2, "n"), dtype="float32"), d2: R.Tensor(("n",), dtype="float32")) -> R.Tensor((2, "n"), dtype="float32"):
#         cls = Module
#         n = T.int64()
#         found = T.int64()
#         gv: R.Tuple(R.Tensor((1, 1, n), dtype="bool"), R.Tensor((), dtype="float32")) = cls.helper_0(x0, d2)
#         gv1 = R.match_cast(x0, R.Tensor((2, found), dtype="float32"))
#         return gv1

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function(private=True)
    def helper_0(x0: R.Tensor(("n * n", "n"), dtype="float32"), d0: R.Tensor(("n",), dtype="float32")) -> R.Tuple(R.Tensor((1, 1, "n"), dtype="bool"), R.Tensor((), dtype="float32")):
        n = T.int64()
        with R.dataflow():
            lv: R.Tensor((), dtype="float32") = R.const(1.0, "float32")
            gv: R.Tensor((), dtype="float32") = lv
            R.output(gv)
        with R.dataflow():
            lv3: R.Tensor((1, 1, n), dtype="bool") = R.less_equal(d0, R.const([[[0.0]]], "float32"))
            gv3: R.Tensor((1, 1, n), dtype="bool") = lv3
            R.output(gv3)
        return (gv3, gv)

    @R.function(private=True)
    def helper_1(x0: R.Tensor((2, "n"), dtype="float32"), d2: R.Tensor(("k",), dtype="float32")) -> R.Tensor(dtype="float32", ndim=2):
        cls = Module
        n = T.int64()
        k = T.int64()
        found = T.int64()
        gv: R.Tuple(R.Tensor((1, 1, n), dtype="bool"), R.Tensor((), dtype="float32")) = cls.helper_0(x0, d2)
        gv1 = R.match_cast(x0, R.Tensor((2, found), dtype="float32"))
        return gv1

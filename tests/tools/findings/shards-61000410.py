# shards: Disagreement from StructIRError shard _ of helper__ which makes () to (), (_ to (_ (_ _ _ to (_ _ _ (_ to (_ zip() argument _ is shorter than argument _
# planned, but not run in shards: shard 0 of helper_1, which makes () to (), (0,) to (3,), (0, 0, 0) to (2, 1, 1), (0,) to (1,): zip() argument 2 is shorter than argument 1

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def helper_0(x0: R.Tensor((), dtype="float32"), x1: R.Tensor((2, "n * m", "m"), dtype="float32"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), number: R.Prim("int64")) -> R.Tuple(R.Tensor(dtype="float32", ndim=3), R.Tensor(("n",), dtype="float32"), R.Tuple(R.Tensor((2, "n * m", "m"), dtype="float32"), R.Tensor(("n",), dtype="float32"), R.Tensor(("n",), dtype="float32"))):
        n = T.int64()
        m = T.int64()
        found = T.int64()
        gv1: R.Tuple(R.Tensor((2, n * m, m), dtype="float32"), R.Tensor((n,), dtype="float32"), R.Tensor((n,), dtype="float32")) = (x1, d0, d0)
        gv3 = R.match_cast(x1, R.Tensor((found, n * m, m), dtype="float32"))
        gv7: R.Tensor((n,), dtype="float32") = gv1[2]
        return (gv3, gv7, gv1)

    @R.function
    def helper_1(gv2: R.Tensor((), dtype="bool"), gv1: R.Tensor(("n",), dtype="bool")) -> R.Tuple(R.Tensor((), dtype="bool"), R.Tensor(("n",), dtype="bool"), R.Tuple(R.Tensor(dtype="float32", ndim=3), R.Tensor((1,), dtype="float32"), R.Tuple(R.Tensor((2, 1, 1), dtype="float32"), R.Tensor((1,), dtype="float32"), R.Tensor((1,), dtype="float32")))):
        cls = Module
        n = T.int64()
        gv: R.Tuple(R.Tensor(dtype="float32", ndim=3), R.Tensor((1,), dtype="float32"), R.Tuple(R.Tensor((2, 1, 1), dtype="float32"), R.Tensor((1,), dtype="float32"), R.Tensor((1,), dtype="float32"))) = cls.helper_0(R.const(0.29849878, "float32"), R.const([[[-0.056987558]], [[-0.48335606]]], "float32"), R.const([-0.07816301], "float32"), R.const([2.0649178], "float32"), R.prim_value(2))
        return (gv2, gv1, gv)

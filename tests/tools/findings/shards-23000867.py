# shards: Disagreement from StructIRError shard _ of main, which makes (_ to (_ (_ _ to (_ _ found
# planned, but not run in shards: shard 0 of main, which makes (0,) to (1,), (0, 0) to (2, 4): found

from structir.script import I, R, T


@I.ir_module
class Module:
    @I.kernel
    def kernel0(x0: R.Tensor(("n",), dtype="bool"), x1: R.Tensor(("m", "m"), dtype="int64"), number: R.Prim("int64"), y0: R.Tensor(("m",), dtype="float32")):
        for i1 in range(m):
            v2 = max(x1[i1, i1] // i1, x1[i1, i1] - i1) * T.int64(T.int32(3) >> T.int32(1))
            v3 = False
            if T.bool(-T.float64(T.float64(3))):
                y0[i1] = T.sigmoid(T.float32(2))

    @R.function
    def main(x0: R.Tensor(("n + 1", "n + 1"), dtype="int64"), x2: R.Tensor(("n",), dtype="bool"), gv3: R.Tensor((2, 4), dtype="int64")) -> R.Tuple(R.Tensor(("n + 1",), dtype="float32"), R.Tensor((2, 4), dtype="int64")):
        cls = Module
        n = T.int64()
        found = T.int64()
        gv = R.match_cast(x2, R.Tensor((found,), dtype="bool"))
        gv4: R.Tensor((n + 1,), dtype="float32") = R.call_kernel(cls.kernel0, (x2, x0, R.prim_value(found)), out_sinfo=R.Tensor((n + 1,), dtype="float32"))
        return (gv4, gv3)

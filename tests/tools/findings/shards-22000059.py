# shards: Disagreement from StructIRError shard _ of main, which makes (_ _ to (_ _ (_ to (_ (_ _ to (_ _ (_ _ to (_ _ error: scan: the first argument is a function of the program
# planned, but not run in shards: shard 0 of main, which makes (0, 0) to (1, 1), (0,) to (1,), (0, 0) to (1, 3), (0, 0) to (4, 1): error: scan: the first argument is a function of the program
#   --> <program>:13:94
#    |
# 13 |         gv3: R.Tuple(R.Tensor((n + 1, m), dtype="float32"), R.Tensor((2,), dtype="int64")) = R.scan(closure, (x2,), gv1)
#    |                                                                                              ^^^^^^^^^^^^^^^^^^^^^^^^^^^
#    = cell: R.Tuple(R.Tensor((), dtype="int64"))
#    = states: R.Tuple(R.Tensor((n + 1, m), dtype="float32"))
#    = x: R.Tensor((2, 3), dtype="float32")
#    = hint: R.scan(cls.cell, (state,), x, (weight,))

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x0: R.Tensor((), dtype="float32"), x1: R.Tensor((), dtype="int64"), x2: R.Tensor(("n + 1", "m"), dtype="float32"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), gv4: R.Tensor(("n * m + m", "m"), dtype="float32"), gv1: R.Tensor((2, 3), dtype="float32")) -> R.Tuple(R.Tuple(R.Tensor(("n + 1", "m"), dtype="float32"), R.Tensor((2,), dtype="int64")), R.Tensor((2, 3), dtype="float32"), R.Tensor(("n * m + m", "m"), dtype="float32")):
        n = T.int64()
        m = T.int64()
        @R.function
        def closure(state: R.Tensor(("n + 1", "m"), dtype="float32"), step: R.Tensor((3,), dtype="float32")) -> R.Tuple(R.Tensor(("n + 1", "m"), dtype="float32"), R.Tensor((), dtype="int64")):
            return (state, x1)
        gv3: R.Tuple(R.Tensor((n + 1, m), dtype="float32"), R.Tensor((2,), dtype="int64")) = R.scan(closure, (x2,), gv1)
        return (gv3, gv1, gv4)

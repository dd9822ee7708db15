# shards: Disagreement from StructIRError shard _ of main, block (_ to (_ error[E_ cannot shard a call with the closure `closure`
# sharded execution fails: shard 0 of main, block (0,) to (1,): error[E0200]: cannot shard a call with the closure `closure`
#   --> <program>:14:87
#    |
# 14 |         gv: R.Tuple(R.Tensor((), dtype="int32"), R.Tensor((1, 1), dtype="float32")) = R.scan(closure, (R.const(0, "int32"),), R.const([-0.03960658], "float32"))
#    |                                                                                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
#    = help: pass a function of the module, with its captured values as arguments [E0910]

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function(private=True)
    def helper_0(x0: R.Tensor((), dtype="int32"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), number: R.Prim("int64"), pair: R.Tuple(any=R.Tensor((1, "m"), dtype="int32"), **{"lambda": R.Tensor(("n",), dtype="float32")})) -> R.Tensor((2, 3), dtype="float32"):
        n = T.int64()
        m = T.int64()
        @R.function
        def closure(state: R.Tensor((), dtype="int32"), step: R.Tensor((), dtype="float32")) -> R.Tuple(R.Tensor((), dtype="int32"), R.Tensor(("m",), dtype="float32")):
            cast = T.int64()
            gv = R.match_cast(d1, R.Tensor((cast,), dtype="float32"))
            return (state, d1)
        gv: R.Tuple(R.Tensor((), dtype="int32"), R.Tensor((m, m), dtype="float32")) = R.scan(closure, (x0,), d1)
        gv1: R.Tensor((2, 3), dtype="float32") = R.full((2, 3), R.const(0.5, "float32"))
        return gv1

    @R.function
    def main(gv9: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
        cls = Module
        gv4: R.Tensor((2, 3), dtype="float32") = cls.helper_0(R.const(0, "int32"), R.const([-0.27287492], "float32"), R.const([-0.03960658], "float32"), R.prim_value(3), (R.const([[1]], "int32"), R.const([0.10790565], "float32")))
        return gv9

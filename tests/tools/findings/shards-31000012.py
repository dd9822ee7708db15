# shards: Disagreement from StructIRError shard _ of helper__ which makes (_ _ to (_ _ the module has no function _

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def shard(
        again: R.Tensor((), dtype="bool"),
        then: R.Tensor((), dtype="bool"),
        state: R.Tensor(("n", "n"), dtype="float32"),
    ) -> R.Tensor(("n", "n"), dtype="float32"):
        cls = Module
        n = T.int64()
        if again:
            gv: R.Tensor((n, n), dtype="float32") = R.add(state, state)
            gv2: R.Tensor((n, n), dtype="float32") = cls.shard(then, R.const(False, "bool"), gv)
        else:
            gv2 = state
        return gv2

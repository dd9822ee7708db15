# shards: Disagreement from StructIRError shard _ of helper__ which makes () to (): median: index _ is out of bounds for axis _ with size _

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(flag: R.Tensor((), dtype="bool"), x: R.Tensor(("m",), dtype="float32"), y: R.Tensor((), dtype="float32")) -> R.Tensor((), dtype="float32"):
        m = T.int64()
        if flag:
            a: R.Tensor((), dtype="float32") = R.median(x)
            b: R.Tensor((), dtype="float32") = R.add(a, y)
        else:
            b = y
        return b

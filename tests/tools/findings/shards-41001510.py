# shards: Disagreement from StructIRError shard _ of helper__ which makes (_ _ to (_ _ at run time at <program>:_ error: scatter_nd: _ coordinates index a tensor of _ axes
# planned, but not run in shards: shard 0 of helper_0, which makes (0, 0) to (2, 2): at run time at <program>:13:60: error: scatter_nd: 8 coordinates index a tensor of 2 axes
#    = data is value: R.Tensor((2, 8), dtype="uint32")
#    = indices is value: R.Tensor((2, 8), dtype="uint32")
#    = updates is value: R.Tensor((), dtype="uint32")

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def helper_0(again: R.Tensor((), dtype="bool"), then: R.Tensor((), dtype="bool"), state: R.Tensor(("m", "m * n"), dtype="uint32"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32")) -> R.Tensor(("m", "m * n"), dtype="uint32"):
        cls = Module
        m = T.int64()
        n = T.int64()
        if again:
            with R.dataflow():
                lv: R.Tensor((m, m * n), dtype="uint32") = R.scatter_nd(state, state, R.const(1, "uint32"))
                gv: R.Tensor((m, m * n), dtype="uint32") = lv
                R.output(gv)
            with R.dataflow():
                lv1: R.Tensor((m, m * n), dtype="uint32") = R.square(state)
                gv1: R.Tensor((m, m * n), dtype="uint32") = lv1
                R.output(gv1)
            gv2: R.Tensor((2, 1, 2, 1), dtype="int64") = R.nn.pixel_shuffle(R.const([[[[2], [1]]], [[[0], [0]]]], "int64"), upscale_factor=1)
            gv6: R.Tensor((m, m * n), dtype="uint32") = cls.helper_0(then, R.const(False, "bool"), gv1, d0, d1)
        else:
            with R.dataflow():
                lv2: R.Tensor((n,), dtype="float32") = R.multiply(d0, R.const(2.0, "float32"))
                gv4: R.Tensor((n,), dtype="float32") = lv2
                R.output(gv4)
            gv5: R.Prim("int64", value=1) = R.prim_value(1)
            gv6 = state
        return gv6

# passes: AttributeError at decompose.py:_apart pass decompose_for_training
# 'OpaqueDefinition' object has no attribute 'signature'

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(d1: R.Tensor(("m",), dtype="float32"), d2: R.Tensor(("k",), dtype="float32"), gv1: R.Tensor((), dtype="bool"), gv3: R.Tuple(R.Prim("int64", value="m"), R.Tensor((), dtype="bool"), R.Tensor(("n",), dtype="float32"))) -> R.Tuple(R.Prim("int64", value="m"), R.Tensor((), dtype="bool"), R.Tensor(("n",), dtype="float32")):
        m = T.int64()
        k = T.int64()
        n = T.int64()
        @R.function
        def closure(state: R.Tensor((), dtype="bool"), step: R.Tensor((), dtype="float32")) -> R.Tuple(R.Tensor((), dtype="bool"), R.Tensor((), dtype="float32")):
            with R.dataflow():
                lv: R.Prim("int64", value=k) = R.prim_value(k)
                gv: R.Prim("int64", value=k) = lv
                R.output(gv)
            with R.dataflow():
                lv1 = R.match_cast(d2, R.Tensor((k,), dtype="float32"))
                gv1_1: R.Tensor((k,), dtype="float32") = lv1
                R.output(gv1_1)
            with R.dataflow():
                lv2 = R.match_cast(d2, R.Tensor((k,), dtype="float32"))
                gv2: R.Tensor((k,), dtype="float32") = lv2
                R.output(gv2)
            return (state, step)
        gv4: R.Tuple(R.Tensor((), dtype="bool"), R.Tensor((m,), dtype="float32")) = R.scan(closure, (gv1,), d1)
        return gv3

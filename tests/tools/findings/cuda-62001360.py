# cuda: IndexError at simulator.py:_place
# tid=[2, 0, 0] ctaid=[0, 0, 0]: element 2 of 0

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x0: R.Tensor(("k", "m"), dtype="int32")) -> R.Tensor(("k", "m"), dtype="int32"):
        k = T.int64()
        m = T.int64()
        with R.dataflow():
            lv2: R.Tensor((k, m), dtype="int32") = R.index_put(x0, (R.const(2, "int32"),), x0)
            R.output(lv2)
        return lv2

# cuda: StructIRError R.ragged.rows: kernels that run in parts are for the CPU [E_
# R.ragged.rows: kernels that run in parts are for the CPU [E0001]

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(ragged0: R.Tensor(("k", "*:len"), dtype="float64")) -> R.Tensor(("k",), dtype="int64"):
        k = T.int64()
        with R.dataflow():
            lv: R.Tensor((k,), dtype="int64") = R.argmax(ragged0, axis=1)
            R.output(lv)
        return lv

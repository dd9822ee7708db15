# passes: PassError the pass lower leaves a program that is not well formed parameter x_ is no tensor of known rank and dtype, and no number pass lower

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), dtype="float8_e4m3fn")) -> R.Tensor(("n",), dtype="float8_e4m3fn"):
        n = T.int64()
        with R.dataflow():
            lv: R.Tensor((n,), dtype="float8_e4m3fn") = R.divide(x, x)
            R.output(lv)
        return lv

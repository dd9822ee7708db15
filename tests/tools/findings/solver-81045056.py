# solver: DiagnosticError negative size of an axis: expected at least _ found -_
# error[E0121]: negative size of an axis: expected at least 0, found -2
#    = help: write a size of at least 0, or name an unknown size: `(n, 4)`

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x1: R.Tensor(("n", "n", "n"), dtype="float32"), pair: R.Tuple(any=R.Tensor(("m", "m"), dtype="int64"), **{"lambda": R.Tensor(("n",), dtype="float32")})) -> R.Tuple(any=R.Tensor(("m", "m"), dtype="int64"), **{"lambda": R.Tensor(("n",), dtype="float32")}):
        n = T.int64()
        m = T.int64()
        with R.dataflow():
            R.require("n == 2")
            lv3: R.Tensor((-n + 2, -n, -n + 1), dtype="float32") = R.strided_slice(x1, begin=(n, n, n), end=(2, 1, 0), axes=[0, 2, 1], assume_inbound=True)
            R.output()
        return pair

# cpu: TypeError at _stride_tricks_impl.py:as_strided
# data type '<f1' not understood

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main() -> R.Tensor((8,), dtype="float8_e5m2"):
        with R.dataflow():
            lv: R.Tensor((8,), dtype="float8_e5m2") = R.repeat(R.const([[[1.0, 0.0], [0.0, 1.0]]], "float8_e5m2"), 2)
            R.output(lv)
        return lv

# deduction: TypeError at _stride_tricks_impl.py:as_strided
# data type '<f1' not understood

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1,), dtype="float8_e5m2")) -> R.Tensor((1,), dtype="float8_e5m2"):
        y: R.Tensor((1,), dtype="float8_e5m2") = R.nn.softmax(x)
        return y

# cuda: ZeroDivisionError at <kernel>:kernel
# tid=[1, 0, 0] ctaid=[0, 0, 0]: integer modulo by zero

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(d1: R.Tensor(("m",), dtype="float32")) -> R.Tensor(("m + 2",), dtype="float32"):
        m = T.int64()
        gv: R.Tensor((m + 2,), dtype="float32") = R.nn.pad(d1, pad_width=[1, 1], pad_mode="circular")
        return gv

# cuda: TypeError at <kernel>:kernel
# numpy boolean subtract, the `-` operator, is not supported

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def helper_0() -> R.Tensor((2,), dtype="int64"):
        gv5: R.Tensor((2,), dtype="int64") = R.sign(R.const([1, 0], "int64"))
        return gv5

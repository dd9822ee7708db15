# cpu: ValueError at getlimits.py:__init__
# Invalid integer data type 'V'.

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), dtype="uint4"), y: R.Tensor((3,), dtype="int2")):
        a: R.Tensor((), dtype="int64") = R.argmin(x)
        b: R.Tensor((), dtype="int2") = R.max(y)
        return a, b

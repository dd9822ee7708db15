# solver: Disagreement at checks.py:solver
# a second time gives more

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(flag: R.Tensor((), dtype="bool"), unknown: R.Tensor(dtype="float32", ndim=2)) -> R.Tensor(dtype="float32", ndim=2):
        a = T.int64()
        b = T.int64()
        if flag:
            x: R.Tensor(dtype="float32", ndim=2) = R.negative(unknown)
            y: R.Tensor((), dtype="float32") = R.sum(x)
        else:
            y = R.const(1.0, "float32")
        z: R.Tensor(dtype="float32", ndim=2) = R.match_cast(unknown, R.Tensor((a, b), dtype="float32"))
        return unknown

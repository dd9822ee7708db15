# passes: DiagnosticError a tensor has no axis of size -1 pass inline_functions

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def helper(x: R.Tensor((1, 1, "n"), dtype="float32")) -> R.Tensor((1, 1, "n"), dtype="float32"):
        n = T.int64()
        y: R.Tensor((1, 1, n - 1), dtype="float32") = R.nn.max_pool1d(x, pool_size=[2])
        return x

    @R.function
    def main(flag: R.Tensor((), dtype="bool"), x: R.Tensor((1, 1, 0), dtype="float32")) -> R.Tensor((1, 1, 0), dtype="float32"):
        cls = Module
        if flag:
            y: R.Tensor((1, 1, 0), dtype="float32") = cls.helper(x)
        else:
            y = x
        return y

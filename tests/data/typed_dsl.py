"""A program, and what a script does with it."""

# mypy: ignore-errors
# pyright: basic, reportInvalidTypeForm=false, reportUndefinedVariable=false
import structir
from structir.script import I, R, T


@I.ir_module
class Mlp:
    @R.function
    def main(x: R.Tensor(("n", 784), "float32"), w: R.Tensor((784, 10), "float32")):
        n = T.int64()
        with R.dataflow():
            y = R.nn.softmax(R.matmul(x, w))
            R.output(y)
        return R.reshape(y, (n, 2, 5))


@R.function
def alone(x: R.Tensor(("n", 784), "float32")) -> R.Tensor(("n", 784), "float32"):
    return R.exp(x)


print(Mlp.script(), alone.struct_info)
exe = structir.compile(Mlp)

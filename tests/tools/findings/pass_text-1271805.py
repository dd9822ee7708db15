# pass_text: AssertionError at remove_unused_outputs.py:call
# a call whose result is known only as an object

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function(private=True)
    def helper(x: R.Tensor(("n",), dtype="float32")) -> R.Tuple(R.Tensor(("n",), dtype="float32"), R.Tensor(("n",), dtype="float32")):
        n = T.int64()
        gv: R.Tensor((n,), dtype="float32") = R.nn.relu(x)
        return (gv, x)

    @R.function
    def main(x: R.Tensor(("n",), dtype="float32")) -> R.Tensor(("n",), dtype="float32"):
        cls = Module
        n = T.int64()
        gv: R.Object = cls.helper(x)
        return x

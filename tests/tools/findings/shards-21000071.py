# shards: ValueError at assembly.py:fill
# could not broadcast input array from shape (2,1) into shape (1,)

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(gv3: R.Tensor(("n",), dtype="float64"), gv: R.Tensor(("n",), dtype="bool")) -> R.Tuple(
        R.Tensor(("n",), dtype="float64"),
        R.Tensor((2, 1), dtype="float32"),
        R.Tensor(("n",), dtype="bool"),
    ):
        n = T.int64()
        gv2: R.Tensor((2, 1), dtype="float32") = R.const([[0.0], [1.0]], "float32")
        return (gv3, gv2, gv)

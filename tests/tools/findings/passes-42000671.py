# passes: StructInfoError x must be a tensor, not R.Tuple(R.Tensor((k, k, m), dtype=_ R.Tensor((k, k, m), dtype=_ pass convert_layout
# error: permute_dims: x must be a tensor, not R.Tuple(R.Tensor((k, k, m), dtype="float32"), R.Tensor((k, k, m), dtype="float32"))
#    = x is R.Tuple(R.Tensor((k, k, m), dtype="float32"), R.Tensor((k, k, m), dtype="float32"))

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x1: R.Tensor(("k", "k", "m"), dtype="float32"), number: R.Prim("int64")) -> R.Prim("int64"):
        k = T.int64()
        m = T.int64()
        with R.dataflow():
            lv1: R.Tensor((k, m, k), dtype="float32") = R.permute_dims(x1, axes=[1, 2, 0])
            lv4: R.Tuple(R.Tensor((k, m, k), dtype="float32"), R.Tensor((k, m, k), dtype="float32")) = R.nn.dropout(lv1, rate=3.0)
            R.output()
        return number

# passes: PassError fold_constant: the resulting program is not well formed indices__ expected indices of at least _ found -_ pass fold_constant

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(d0: R.Tensor(("n",), dtype="float32"), gv1: R.Tensor) -> R.Tensor:
        n = T.int64()
        with R.dataflow():
            lv: R.Tensor((2, 3), dtype="int64") = R.astype(R.const([[1.1875, -1.4375, 0.9375], [0.5625, 0.8125, -0.5625]], "float32"), dtype="int64")
            lv1: R.Tensor((2, 3), dtype="float32") = R.index_tensor(d0, (lv,))
            R.output()
        return gv1

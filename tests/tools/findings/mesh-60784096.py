# mesh: TypeError at loss.py:cross_entropy_with_logits

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def helper_0(x0: R.Tensor(("n",), dtype="float32"), d0: R.Tensor(("n",), dtype="float32"), unknown: R.Tensor(dtype="float32", ndim=0)) -> R.Tensor(dtype="float32", ndim=0):
        n = T.int64()
        with R.dataflow():
            lv6: R.Tensor((), dtype="float32") = R.nn.cross_entropy_with_logits(unknown, R.const(0.5, "float32"))
            R.output()
        return unknown

    @R.function
    def main(d0: R.Tensor(("n",), dtype="float32")) -> R.Tensor(dtype="float32", ndim=0):
        cls = Module
        n = T.int64()
        gv: R.Tensor(dtype="float32", ndim=0) = cls.helper_0(R.const([-0.26585445, 0.21133676], "float32"), R.const([0.100714736, 0.90533406], "float32"), R.const(0.8413186, "float32"))
        gv3: R.Tensor(dtype="float32", ndim=0) = cls.helper_0(d0, d0, gv)
        return gv3

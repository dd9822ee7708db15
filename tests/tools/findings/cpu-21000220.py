# cpu: Disagreement at agreement.py:require_agreement
# expected array([0.], dtype=float32)
# found array([1.], dtype=float32)

from structir.script import I, R


@I.ir_module
class Module:
    @R.function
    def main(flag: R.Tensor((), dtype="bool")) -> R.Tensor((1,), dtype="float32"):
        with R.dataflow():
            lv: R.Tensor((1,), dtype="float32") = R.cumprod(flag, dtype="float32", exclusive=True)
            R.output(lv)
        return lv

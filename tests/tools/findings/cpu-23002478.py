# cpu: Disagreement at agreement.py:require_agreement
# expected array([0], dtype=int32)
# found array([2], dtype=int32)

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main() -> R.Tensor((1,), dtype="int32"):
        with R.dataflow():
            two: R.Tensor((1,), dtype="int32") = R.add(R.const([1], "int32"), R.const([1], "int32"))
            lv: R.Tensor((1,), dtype="int32") = R.gather_elements(R.const([2], "int32"), two)
            R.output(lv)
        return lv

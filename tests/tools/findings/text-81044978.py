# text: DiagnosticWarning at errors.py:warn
# warning[E0004]: cannot prove the annotation of lv; assuming it holds

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(d2: R.Tensor(("k",), dtype="float32"), ragged1: R.Tensor(("m", "*:len", "m", "k"), dtype="float32")) -> R.Tensor(("k",), dtype="float32"):
        m = T.int64()
        k = T.int64()
        with R.dataflow():
            lv = R.matmul(d2, ragged1)
            R.output()
        return d2

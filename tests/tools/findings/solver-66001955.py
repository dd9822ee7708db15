# solver: DiagnosticError division by zero: -_ // _
# error: division by zero: -2 // 0

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function(private=True)
    def helper_0(again: R.Tensor((), dtype="bool"), then: R.Tensor((), dtype="bool"), state: R.Tensor((2, "n", "m"), dtype="int64"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32")) -> R.Tensor((2, "n", "m"), dtype="int64"):
        cls = Module
        n = T.int64()
        m = T.int64()
        if again:
            with R.dataflow():
                lv: R.Shape([n, m + 1]) = R.shape([n, m + 1])
                lv1: R.Tensor((2, 2), dtype="int64") = R.divide(R.const([[1, 0], [1, 0]], "int64"), R.const([[1, 0], [1, 0]], "int64"))
                lv2: R.Tensor((m,), dtype="float32") = R.slice_scatter(d1, d1, 1, m, m)
                gv: R.Tensor((2, 2), dtype="int64") = lv1
                gv1: R.Tensor((m,), dtype="float32") = lv2
                R.output(gv, gv1)
            gv3: R.Tensor((2, n, m), dtype="int64") = cls.helper_0(then, R.const(False, "bool"), state, d0, d1)
        else:
            gv3 = state
        return gv3

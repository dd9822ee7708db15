# pass_text: StopIteration at lowering.py:_unsupported

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x0: R.Tensor(("m", "m"), dtype="int64"), x1: R.Tensor(("m * n", "n + 1"), dtype="bool"), x2: R.Tensor((), dtype="bool"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), flag: R.Tensor((), dtype="bool"), number: R.Prim("int64"), ragged0: R.Tensor(("m", "*"), dtype="int64"), ragged1: R.Tensor(("m", "*"), dtype="float32"), gv: R.Tensor(("m * n", "n + 1"), dtype="bool"), lv1: R.Tensor(("m", "*"), dtype="float32"), gv3: R.Tensor(("m", "*"), dtype="int64")) -> R.Tensor(("m",), dtype="float32"):
        m = T.int64()
        n = T.int64()
        with R.dataflow():
            lv: R.Tensor((m, "*"), dtype="bool") = R.greater(ragged0, x2)
            gv1: R.Tensor((m, "*"), dtype="bool") = lv
            gv2: R.Tensor((m, "*"), dtype="float32") = lv1
            R.output(gv1, gv2)
        @R.function
        def closure(p0: R.Tensor((), dtype="bool")) -> R.Tuple(R.Tensor(dtype="bool", ndim=2), R.Tensor(dtype="float32", ndim=1), R.Tensor((), dtype="bool")):
            with R.dataflow():
                lv_1: R.Tensor((m, "*"), dtype="bool") = R.where(gv1, gv1, gv1)
                lv1_1: R.Tensor((), dtype="int64") = R.min(gv3)
                gv_1: R.Tensor((), dtype="int64") = lv1_1
                gv1_1: R.Tensor((m, "*"), dtype="bool") = lv_1
                R.output(gv_1, gv1_1)
            return (gv, d1, flag)
        return d1

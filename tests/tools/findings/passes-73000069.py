# passes: TypeError at conversion.py:converted
# Cannot cast array data from dtype(int2) to dtype(float8_e8m0fnu) according to the rule 'unsafe'

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function(private=True)
    def helper_0(x0: R.Tensor(("n * m", "m"), dtype="int2"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), flag: R.Tensor((), dtype="bool"), pair: R.Tuple(R.Tensor(("n", "m"), dtype="int2"), R.Tensor(("n",), dtype="float32"))) -> R.Tuple(R.Tensor((), dtype="bool"), R.Tensor(("n * m", "m"), dtype="float8_e8m0fnu"), R.Tensor(("m",), dtype="float32")):
        n = T.int64()
        m = T.int64()
        with R.dataflow():
            lv9: R.Tensor((n * m, m), dtype="float8_e8m0fnu") = R.astype(x0, dtype="float8_e8m0fnu")
            gv: R.Tensor((n * m, m), dtype="float8_e8m0fnu") = lv9
            R.output(gv)
        return (flag, gv, d1)

    @R.function
    def main(gv21: R.Prim("int64", value="n")) -> R.Prim("int64", value="n"):
        cls = Module
        n = T.int64()
        gv17: R.Tuple(R.Tensor((), dtype="bool"), R.Tensor((1, 1), dtype="float8_e8m0fnu"), R.Tensor((1,), dtype="float32")) = cls.helper_0(R.const([[1]], "int2"), R.const([0.54393476], "float32"), R.const([-0.24841462], "float32"), R.const(False, "bool"), (R.const([[1]], "int2"), R.const([0.3277684], "float32")))
        return gv21

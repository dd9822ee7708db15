# solver: WellFormedError the StructInfo of gv_ contradicts its value
# error: the StructInfo of gv3 contradicts its value
#    = it says R.Tensor((2, 1), dtype="bool")
#    = the value is R.Tensor((2, 0), dtype="bool")

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def helper_0(x0: R.Tensor((2, "m"), dtype="float32"), x1: R.Tensor(("m", "n", "m"), dtype="float32"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32")) -> R.Tensor((2, "m"), dtype="bool"):
        m = T.int64()
        n = T.int64()
        with R.dataflow():
            lv3: R.Tensor((-4 * m,), dtype="float32") = R.zeros((-4 * m,), dtype="float32")
            R.output()
        gv5: R.Tensor((2, m), dtype="bool") = R.less(R.const(0.0, "float32"), x0)
        return gv5

    @R.function
    def helper_1(again: R.Tensor((), dtype="bool"), then: R.Tensor((), dtype="bool"), state: R.Tensor((), dtype="float32"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32")) -> R.Tensor((), dtype="float32"):
        cls = Module
        n = T.int64()
        m = T.int64()
        found = T.int64()
        if again:
            with R.dataflow():
                lv: R.Tuple(R.Tensor((3, 2), dtype="float32"), R.Tensor((3, 2), dtype="float32"), R.Tensor((1, 2), dtype="float32")) = R.split(R.const([[-0.9375, -1.0625], [-1.4375, -0.1875], [0.8125, -1.4375], [-1.0625, 0.4375], [1.0625, -0.6875], [0.4375, -1.0625], [-1.1875, 1.0625]], "float32"), indices_or_sections=3)
                gv: R.Tuple(R.Tensor((3, 2), dtype="float32"), R.Tensor((3, 2), dtype="float32"), R.Tensor((1, 2), dtype="float32")) = lv
                R.output(gv)
            gv1 = R.match_cast(d0, R.Tensor((found,), dtype="float32"))
            gv2: R.Tensor((m,), dtype="bool") = R.greater_equal(d1, d1)
            gv3: R.Tensor((2, 1), dtype="bool") = cls.helper_0(R.const([[-0.109028526], [-0.58757955]], "float32"), R.const([[[-0.20820427]]], "float32"), R.const([0.9298799], "float32"), R.const([0.003449936], "float32"))
            gv5: R.Tensor((), dtype="float32") = cls.helper_1(then, R.const(False, "bool"), state, d0, d1)
        else:
            gv5 = state
        return gv5

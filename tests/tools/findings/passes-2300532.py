# passes: Disagreement at checks.py:_check_pass pass inline_functions
# inline_functions is not idempotent: a second run changes the program

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def helper_0(x0: R.Tensor(("*r", 1, 2), dtype="int32"), x1: R.Tensor(("*s", 1, "n + 1"), dtype="float64"), x2: R.Tensor(("*s",), dtype="float32"), d0: R.Tensor(("n",), dtype="float32"), unknown: R.Tensor(dtype="float32", ndim=2)) -> R.Tuple(R.Tensor(dtype="float32", ndim=2), R.Shape([])):
        n = T.int64()
        cast = T.int64()
        cast_1 = T.int64()
        with R.dataflow():
            lv3: R.Shape([]) = R.shape([])
            lv4 = R.match_cast(unknown, R.Tensor((cast, cast_1), dtype="float32"))
            gv2: R.Shape([]) = lv3
            gv3: R.Tensor((cast, cast_1), dtype="float32") = lv4
            R.output(gv2, gv3)
        return (gv3, gv2)

    @I.kernel
    def kernel0(x0: R.Tensor(("n",), dtype="float32"), y0: R.Tensor(("n", "n"), dtype="int32")):
        for i1 in range(x0.shape[0]):
            for i2 in range(n - 1, -1, -1):
                rest3 = T.int64(x0[i2]) % 97
                while rest3 > 3:
                    rest3 //= 2
                sum4 = T.float64(0.0)
                for j5 in range(n):
                    sum4 -= min(max(T.float64(2.5), T.float64(1)) if not False else T.float64(3) if False else T.float64(1.5), T.tanh(T.float64(3)))
                y0[i1, i2] = T.int32(0) | (T.int32(0) & T.int32(0)) - T.int32(0)

    @R.function
    def helper_1(x0: R.Tensor(("n + 1",), dtype="float32"), x1: R.Tensor(("n + 1",), dtype="float64"), x2: R.Tensor((1, "m"), dtype="bool"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), d2: R.Tensor(("k",), dtype="float32"), number: R.Prim("int64")) -> R.Tuple(R.Tensor((3,), dtype="float32"), R.Tuple(R.Tensor(dtype="float32", ndim=2), R.Shape([]))):
        cls = Module
        n = T.int64()
        m = T.int64()
        k = T.int64()
        gv: R.Tensor((3,), dtype="float32") = R.nn.nll_loss(R.const([[-0.3125, -1.0625, 0.1875, 1.3125, -1.0625], [0.1875, 0.3125, 0.3125, -0.1875, -0.8125], [0.4375, 1.0625, -0.3125, 0.5625, -0.8125]], "float32"), R.const([1, 3, 0], "int64"), reduction="none", ignore_index=2)
        gv6: R.Tensor((3, 3), dtype="int32") = R.call_kernel(cls.kernel0, (gv,), out_sinfo=R.Tensor((3, 3), dtype="int32"))
        gv8: R.Tuple(R.Tensor(dtype="float32", ndim=2), R.Shape([])) = cls.helper_0(R.const([[[1, 1]]], "int32"), R.const([[[0.9732898093239027, -0.03515256495379569]], [[-0.5752713400795317, 0.418498129509245]]], "float64"), R.const([0.7637582, -0.56134534], "float32"), R.const([0.4813132], "float32"), R.const([[1.2672358]], "float32"))
        return (gv, gv8)

    @R.function
    def main(gv13: R.Tensor(("m",), dtype="float32")) -> R.Tensor(("m",), dtype="float32"):
        cls = Module
        m = T.int64()
        gv2: R.Tuple(R.Tensor((3,), dtype="float32"), R.Tuple(R.Tensor(dtype="float32", ndim=2), R.Shape([]))) = cls.helper_1(R.const([-1.0011972, -0.2942832], "float32"), R.const([-0.5574762540202507, -1.0276084752411812], "float64"), R.const([[True, False]], "bool"), R.const([-0.01585372], "float32"), R.const([1.177965, -1.7539674], "float32"), R.const([-0.93890864, 2.0498354], "float32"), R.prim_value(2))
        return gv13

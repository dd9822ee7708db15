# shards: Disagreement from StructInfoError argument _ expected R.Tensor((_ dtype=_ found R.Tensor((_ dtype=_

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def helper_0(x0: R.Tensor((), dtype="float32"), x1: R.Tensor((), dtype="float64"), x2: R.Tensor(("n + 1", "n"), dtype="float32"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), shape: R.Shape(["n", "m + 1"]), flag: R.Tensor((), dtype="bool")) -> R.Tuple(R.Tensor(("n",), dtype="float32"), R.Tensor(("n",), dtype="float32"), R.Tensor((), dtype="float32")):
        n = T.int64()
        m = T.int64()
        gv: R.Tensor((), dtype="float32") = R.nn.gelu_tanh(x0)
        if flag:
            gv3 = d0
        else:
            gv3 = d0
        @R.function
        def closure(p0: R.Tensor(("n",), dtype="float32"), p1: R.Tensor(("m",), dtype="float32")) -> R.Tensor((), dtype="bool"):
            return flag
        if flag:
            gv9 = shape
        else:
            gv7: R.Tensor((), dtype="bool") = closure(d1, d0)
            gv9 = shape
        gv10: R.Tensor((n,), dtype="float32") = R.asin(gv3)
        return (gv3, gv10, gv)

    @R.function
    def main(x0: R.Tensor(("m:axis0", "n + 1:axis1", "2:axis2"), dtype="float64"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), d2: R.Tensor(("k",), dtype="float32"), lv1: R.Tensor(("m + k",), dtype="float32"), gv1: R.Prim("int64", value="n"), gv2: R.Tensor(("m + k",), dtype="float32")) -> R.Tensor(("m + k",), dtype="float32"):
        cls = Module
        m = T.int64()
        n = T.int64()
        k = T.int64()
        gv4: R.Tuple(R.Tensor((2,), dtype="float32"), R.Tensor((2,), dtype="float32"), R.Tensor((), dtype="float32")) = cls.helper_0(R.const(-0.89485043, "float32"), R.const(0.43361067923399066, "float64"), R.const([[-0.29442784, -1.3868521], [-1.0565807, -2.2502134], [0.8366237, 1.8404706]], "float32"), R.const([0.08242797, 0.27148923], "float32"), R.const([0.11023613], "float32"), R.shape([2, 2]), R.const(True, "bool"))
        return gv2

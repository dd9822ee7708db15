# solver: Disagreement from ShapeMismatchError gv_ axis _ expected m = _ found _
# a StructInfo does not hold: gv8: axis 0: expected m = 3, found 0

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), gv15: R.Tensor((), dtype="float32"), gv: R.Tensor((0,), dtype="float32"), gv1: R.Tensor((0,), dtype="float32")) -> R.Tensor((), dtype="float32"):
        n = T.int64()
        m = T.int64()
        found = T.int64()
        if R.const(False, "bool"):
            with R.dataflow():
                lv: R.Shape([]) = R.shape([])
                lv1: R.Tensor((2, 2, 2, 1, 2), dtype="float32") = R.concat((R.const([[[[[1.0, 1.0]], [[1.0, 0.0]]], [[[0.0, 0.0]], [[0.0, 0.0]]]], [[[[2.0, 0.0]], [[2.0, 2.0]]], [[[0.0, 1.0]], [[2.0, 0.0]]]]], "float32"),))
                gv2: R.Tensor((2, 2, 2, 1, 2), dtype="float32") = lv1
                gv3: R.Shape([]) = lv
                R.output(gv2, gv3)
            with R.dataflow():
                lv2: R.Tensor(dtype="int64", ndim=2) = R.nonzero(d1)
                gv4: R.Tensor(dtype="int64", ndim=2) = lv2
                R.output(gv4)
            gv8 = d1
        else:
            with R.dataflow():
                lv3: R.Tuple(R.Tensor((1, 1, 2, 1), dtype="int64"), R.Tensor((1, 1, 2, 1), dtype="int32")) = R.topk(R.const([[[[0, 1], [2, 2]]]], "int64"))
                lv4: R.Tensor((), dtype="float32") = R.nn.cross_entropy_with_logits(d0, d0)
                lv5 = R.match_cast(gv, R.Tensor((found,), dtype="float32"))
                gv5: R.Tensor((found,), dtype="float32") = lv5
                gv6: R.Tensor((), dtype="float32") = lv4
                gv7: R.Tuple(R.Tensor((1, 1, 2, 1), dtype="int64"), R.Tensor((1, 1, 2, 1), dtype="int32")) = lv3
                R.output(gv5, gv6, gv7)
            gv8 = gv1
        return gv15

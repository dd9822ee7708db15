# deduction: Disagreement from ShapeMismatchError lv: axis _ expected _ found _
# a StructInfo does not hold: lv: axis 0: expected 0, found 1

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x0: R.Tensor((), dtype="int64"), x1: R.Tensor((), dtype="bool"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), d2: R.Tensor(("k",), dtype="float32"), unknown: R.Tensor(dtype="float32", ndim=1), number: R.Prim("int64"), gv: R.Tensor((3, 7), dtype="float32"), gv1: R.Tensor((4, 3), dtype="float32")) -> R.Tensor((3, 7), dtype="float32"):
        n = T.int64()
        m = T.int64()
        k = T.int64()
        @R.function
        def closure(state: R.Tensor(("k",), dtype="float32"), step: R.Tensor((), dtype="float32")) -> R.Tuple(R.Tensor(("k",), dtype="float32"), R.Tensor((), dtype="float32")):
            gv_1: R.Shape([2, m, m + 1]) = R.shape([2, m, m + 1])
            if x1:
                with R.dataflow():
                    lv = R.memory.view(unknown, (0,))
                    gv1_1 = lv
                    R.output(gv1_1)
                with R.dataflow():
                    lv1: R.Tuple() = ()
                    gv2: R.Tuple() = lv1
                    R.output(gv2)
                gv3 = gv
            else:
                gv3 = gv1
            return (state, step)
        gv2: R.Tuple(R.Tensor((k,), dtype="float32"), R.Tensor((n,), dtype="float32")) = R.scan(closure, (d2,), d0)
        return gv

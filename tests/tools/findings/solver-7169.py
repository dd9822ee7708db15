# solver: WellFormedError dimension mismatch: a has n = _ (axis -_ a has n = _ (axis -_
# error[E0201]: linalg.solve: dimension mismatch: a has n = 1 (axis -2), a has n = 2 (axis -1)
#    = note: n = 1 (axis -2): gv1 is R.Tensor((1, 2), dtype="float32")
#    = note: n = 2 (axis -1): gv1 is R.Tensor((1, 2), dtype="float32")
#    = note: index signature: a[*p, [n], [n]], b[*p, [n], [m]] -> x[*p, [n], [m]]
#    = help: correct the shape of `gv1`

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function(private=True)
    def helper_0(x0: R.Tensor((1, "m", "m * n"), dtype="float32"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), unknown: R.Tensor(dtype="float32", ndim=2)) -> R.Tensor(dtype="float32", ndim=2):
        m = T.int64()
        n = T.int64()
        return unknown

    @R.function
    def main(x0: R.Tensor(("n", 2, "m"), dtype="bool"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), unknown: R.Tensor(dtype="float32", ndim=0), gv2: R.Tuple(R.Tensor(("m",), dtype="float32"), R.Tensor(("n", "m"), dtype="float32")), gv3: R.Tensor((), dtype="float32")) -> R.Tuple(R.Tensor(("m",), dtype="float32"), R.Tensor(("n", "m"), dtype="float32")):
        cls = Module
        n = T.int64()
        m = T.int64()
        gv1: R.Tensor(dtype="float32", ndim=2) = cls.helper_0(R.const([[[-0.79094225, -0.71829593]]], "float32"), R.const([-0.014805971, 0.12995052], "float32"), R.const([0.34405074], "float32"), R.const([[-0.22619957, -1.301747]], "float32"))
        if R.const(True, "bool"):
            gv5: R.Tensor((), dtype="float32") = R.nn.softplus(unknown, beta=0.0)
            gv6: R.Tensor((), dtype="float32") = R.asin(gv3)
            with R.dataflow():
                lv: R.Tensor((3, 2), dtype="float32") = R.linalg.solve(gv1, R.const([[1.0, 2.0], [-1.0, 0.5], [3.0, -2.0]], "float32"))
                gv7: R.Tensor((3, 2), dtype="float32") = lv
                R.output(gv7)
            gv10 = x0
        else:
            with R.dataflow():
                lv1: R.Tensor((m,), dtype="float32") = R.tan(d1)
                gv8: R.Tensor((m,), dtype="float32") = lv1
                R.output(gv8)
            with R.dataflow():
                lv2: R.Tuple(R.Tensor(dtype="float32", ndim=2), R.Tuple(R.Tensor((m,), dtype="float32"), R.Tensor((n, m), dtype="float32")), R.Tensor((n,), dtype="float32")) = (gv1, gv2, d0)
                gv9: R.Tuple(R.Tensor(dtype="float32", ndim=2), R.Tuple(R.Tensor((m,), dtype="float32"), R.Tensor((n, m), dtype="float32")), R.Tensor((n,), dtype="float32")) = lv2
                R.output(gv9)
            gv10 = x0
        return gv2

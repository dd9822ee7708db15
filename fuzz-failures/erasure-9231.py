# erasure: Disagreement from ShapeMismatchError gv_ axis _ expected _ * i__ + d_ = _ (i__ = _ d_ = _ found _ [E_
# a value violates its StructInfo: gv5: axis 0: expected 2 * i_0 + d2 = 5 (i_0 = 2, d2 = 1), found 1 [E0700]

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function(private=True)
    def helper(
        x0: R.Tensor(("*s", "m"), dtype="float64"),
        x1: R.Tensor(("*s", "*u"), dtype="float32"),
        x2: R.Tensor(("*u",), dtype="'T"),
        x3: R.Tensor(("*s",), dtype="float64"),
        x4: R.Tensor(("m",), dtype="'U"),
    ) -> R.Tensor(("*s",), dtype="float64"):
        m = T.int64()
        return x3

    @R.function
    def main(
        x0: R.Tensor(("*t",), dtype="'U"),
        x1: R.Tensor(("*s",), dtype="float32"),
        x2: R.Tensor(("n", "*:len"), dtype="float64"),
        x3: R.Tensor(("n",), dtype="float32"),
    ) -> R.Tensor(dtype="float32", ndim=1):
        n = T.int64()
        gv2: R.Tensor(dtype="float32", ndim=1) = R.concat((x1, x1, x3))
        gv4: R.Tensor(dtype="float32", ndim=2) = R.expand_dims(gv2, axis=-1)

        @R.function
        def closure(
            state: R.Tensor(dtype="float32", ndim=1), step: R.Tensor(dtype="float32", ndim=1)
        ) -> R.Tensor(dtype="float32", ndim=1):
            return step

        gv5: R.Tensor(dtype="float32", ndim=1) = R.reduce(closure, gv2, gv4)
        return gv5

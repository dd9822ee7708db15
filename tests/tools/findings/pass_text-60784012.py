# pass_text: WellFormedError the result of main_closure mentions *s, which is not bound pass lambda_lift
# error[E0502]: the result of main_closure mentions *s, which is not bound
#    = help: bind it as a whole size of a parameter or of R.match_cast: `R.Tensor(("*s",))`

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x0: R.Tensor(("n",), dtype="float32"), x1: R.Tensor(("n * n", 2), dtype="int64"), d0: R.Tensor(("n",), dtype="float32"), pair: R.Tuple(any=R.Tensor(("*s",), dtype="int8"), **{"lambda": R.Tensor(("n",), dtype="float32")}), gv1: R.Tensor(("*s",), dtype="int8"), gv2: R.Tensor(dtype="int64", ndim=2)) -> R.Tensor(("n * n", 2), dtype="int64"):
        n = T.int64()
        with R.dataflow():
            lv: R.Tensor(("*s",), dtype="int8") = pair.any
            gv3: R.Tensor(("*s",), dtype="int8") = lv
            R.output(gv3)
        gv5: R.Tensor((n * n, 2), dtype="int64") = x1
        coarse1: R.Tuple(R.Tuple(R.Tensor(dtype="float32", ndim=1), R.Tensor(("*s",), dtype="int8")), R.Tensor(dtype="int64"))
        coarse1 = ((x0, gv1), gv2)
        @R.function
        def closure() -> R.Tuple(R.Tuple(R.Tensor(dtype="float32", ndim=1), R.Tensor(("*s",), dtype="int8")), R.Tensor(dtype="int64")):
            with R.dataflow():
                lv_1 = R.match_cast(d0, R.Tensor((n,), dtype="float32"))
                gv: R.Tensor((n,), dtype="float32") = lv_1
                R.output(gv)
            return coarse1
        return gv5

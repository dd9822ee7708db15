# passes: PassError the pass lambda_lift leaves a program that is not well formed closure is used where it is not defined pass lambda_lift
# error: the pass lambda_lift leaves a program that is not well formed
# 
# error: closure is used where it is not defined

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function(private=True)
    def helper_0(x0: R.Tensor(("n", 2, "m"), dtype="float32"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32")) -> R.Callable((R.Tensor(("n", 2, "m"), dtype="float32"), R.Tensor((), dtype="float32")), R.Tuple(R.Tensor(("n", 2, "m"), dtype="float32"), R.Tensor(("n", 2, "m"), dtype="float32"))):
        n = T.int64()
        m = T.int64()
        @R.function
        def closure() -> R.Tensor(("n", 2, "m"), dtype="float32"):
            return x0
        @R.function
        def closure_1(state: R.Tensor(("n", 2, "m"), dtype="float32"), step: R.Tensor((), dtype="float32")) -> R.Tuple(R.Tensor(("n", 2, "m"), dtype="float32"), R.Tensor(("n", 2, "m"), dtype="float32")):
            if R.const(False, "bool"):
                with R.dataflow():
                    lv: R.Tensor((), dtype="float32") = R.median(d1)
                    gv: R.Tensor((), dtype="float32") = lv
                    R.output(gv)
                gv1 = d0
            else:
                gv1 = d0
            gv2: R.Tensor((n, 2, m), dtype="float32") = closure()
            with R.dataflow():
                lv1: R.Tensor((2, 3), dtype="float32") = R.negative(R.const([[0.53125, 0.46875, 0.28125], [0.65625, 0.21875, 0.21875]], "float32"))
                gv3: R.Tensor((2, 3), dtype="float32") = lv1
                R.output(gv3)
            return (gv2, state)
        return closure_1

# passes: PassError the pass inline_functions leaves a program that is not well formed match_cast mentions n, which nothing binds pass inline_functions
# error: the pass inline_functions leaves a program that is not well formed
# 
# error: match_cast mentions n, which nothing binds
#    = hint: a symbolic dim is bound where it stands alone as a size of a parameter or of a match_cast

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function(private=True)
    def helper_0(x0: R.Tensor((1, "n * n"), dtype="float32"), d0: R.Tensor(("n",), dtype="float32")) -> R.Tuple(R.Tensor(("n",), dtype="int64"), R.Tensor(("n",), dtype="float32")):
        n = T.int64()
        gv: R.Tensor((n,), dtype="int64") = R.full_like(d0, R.const(2.0, "float32"), dtype="int64")
        gv2 = R.match_cast(d0, R.Tensor((n,), dtype="float32"))
        return (gv, gv2)

    @R.function
    def main(unknown: R.Tensor(dtype="float32", ndim=1), gv5: R.Tensor((1, 1), dtype="float64"), gv1: R.Tensor((1, 1), dtype="float32")) -> R.Tensor((1, 1), dtype="float64"):
        cls = Module
        gv2: R.Tuple(R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="float32", ndim=1)) = cls.helper_0(gv1, unknown)
        return gv5

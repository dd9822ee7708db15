# solver: Disagreement at checks.py:solver
# a second run infers more

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x0: R.Tensor(("n * n", 1, "n"), dtype="float32")) -> R.Tensor(dtype="float32", ndim=3):
        n = T.int64()
        cast = T.int64()
        gv = R.match_cast(x0, R.Tensor((n * n, 1, cast), dtype="float32"))
        gv2: R.Tensor((n * n // 4, 2, 2 * cast), dtype="float32") = R.nn.pixel_shuffle(gv, upscale_factor=2)
        return gv2

# solver: Unsatisfiable conflicting shapes: one dim must be both _ and _
# error[E0401]: conflicting shapes: one dim must be both 1 and 2

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x0: R.Tensor(("n", "k", "n * k"), dtype="bfloat16"), gv2: R.Tensor(("k",), dtype="float32"), gv3: R.Tensor(("n",), dtype="float32")) -> R.Tensor(("k",), dtype="float32"):
        n = T.int64()
        k = T.int64()
        with R.dataflow():
            lv1: R.Tuple(R.Tensor((n,), dtype="bfloat16"), R.Tensor((n,), dtype="bfloat16")) = R.linalg.slogdet(x0)
            lv5: R.Tuple(R.Tensor((2,), dtype="float32"), R.Tensor((0,), dtype="float32"), R.Tensor((n - 1,), dtype="float32")) = R.split(gv3, indices_or_sections=[2, 1])
            R.output()
        return gv2

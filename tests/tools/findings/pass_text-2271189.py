# pass_text: IndexError at program_printer.py:result_variable pass common_subexpression_elimination
# tuple index out of range

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function(private=True)
    def helper_0(x0: R.Tensor((1, "n"), dtype="float32"), x1: R.Tensor(("m", 1), dtype="float32"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), d2: R.Tensor(("k",), dtype="float32")) -> R.Tuple(R.Tensor((1, "n"), dtype="float32"), R.Tensor(("k", "k"), dtype="float32"), R.Shape(["k + 1", "m + 1", 2])):
        n = T.int64()
        m = T.int64()
        k = T.int64()
        gv: R.Shape([k + 1, m + 1, 2]) = R.shape([k + 1, m + 1, 2])
        gv1: R.Tensor((k, k), dtype="float32") = R.outer(d2, d2)
        gv3: R.Tensor((1, n), dtype="float32") = R.nn.relu6(x0)
        return (gv3, gv1, gv)

    @R.function
    def main(x1: R.Tensor((1, "n * n", 2), dtype="float32"), d0: R.Tensor(("n",), dtype="float32"), gv: R.Tensor(("n", "n"), dtype="float32")) -> R.Tuple(R.Tensor((1, "n"), dtype="float32"), R.Tensor(("n", "n"), dtype="float32"), R.Shape(["n + 1", "n + 1", 2])):
        cls = Module
        n = T.int64()
        gv1: R.Tuple(R.Tensor((1, n), dtype="float32"), R.Tensor((n, n), dtype="float32"), R.Shape([n + 1, n + 1, 2])) = cls.helper_0(gv, gv, d0, d0, d0)
        if R.const(True, "bool"):
            gv4 = x1
        else:
            gv3: R.Tuple(R.Tensor((1, n), dtype="float32"), R.Tensor((n, n), dtype="float32"), R.Shape([n + 1, n + 1, 2])) = cls.helper_0(gv, gv, d0, d0, d0)
            gv4 = x1
        return gv1

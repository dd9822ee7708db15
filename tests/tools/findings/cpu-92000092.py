# cpu: Disagreement at checks.py:cpu

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(unknown: R.Tensor(dtype="float32", ndim=2), gv1: R.Tensor(("n",), dtype="float32")) -> R.Tensor(("n",), dtype="float32"):
        n = T.int64()
        gv5: R.Tensor((3, 2), dtype="float32") = R.gather_elements(unknown, R.const([[2, 0], [1, 1], [3, 1]], "int64"), axis=1)
        return gv1

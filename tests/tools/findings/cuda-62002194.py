# cuda: IndexError at simulator.py:_place
# tid=[0, 0, 0] ctaid=[0, 0, 0]: element 0 of 0

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x0: R.Tensor(("n", 1), dtype="bool")) -> R.Tensor((1,), dtype="bool"):
        n = T.int64()
        gv1: R.Tensor((1,), dtype="bool") = R.index_tensor(x0, (R.const(2, "int32"),))
        return gv1

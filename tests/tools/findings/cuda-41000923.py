# cuda: Disagreement at agreement.py:require_agreement
# expected array([-0.6323776 , -0.5637155 ,  0.15618563,  0.7077415 ], dtype=float32)
# found array([2., 1., 3., 0.], dtype=float32)

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), dtype="float32")):
        n = T.int64()
        y: R.Tensor((n,), dtype="float32") = R.sort(x)
        z: R.Tensor((n,), dtype="int32") = R.argsort(x)
        return y, z

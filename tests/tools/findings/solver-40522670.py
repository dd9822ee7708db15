# solver: ShapeMismatchError helper__ parameter x_ axis _ expected _ found _ [E_

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def helper_0(x2: R.Tensor(("k:axis0", "n:axis1", "2:axis2"), dtype="int64"), gv4: R.Tensor((2, "n", "cast"), dtype="int64")) -> R.Tensor((2, "n", "cast"), dtype="int64"):
        k = T.int64()
        n = T.int64()
        cast = T.int64()
        gv: R.Tensor((2, n, k), dtype="int64") = R.permute_dims(x2, axes=[2, 1, 0])
        gv3: R.Tensor((2, n, 2), dtype="int64") = R.subtract(x2, gv)
        return gv4

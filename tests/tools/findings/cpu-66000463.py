# cpu: DTypePromotionError at values.py:_pair
# The DTypes <class 'numpy.dtype[int2]'> and <class 'numpy.dtypes.UInt64DType'> do not have a common DType. For example they cannot be stored in a single array unless the dtype is `object`.

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(gv: R.Tensor((4, 3), dtype="float32"), gv2: R.Tensor((2, "n"), dtype="int2")) -> R.Tensor((4, 3), dtype="float32"):
        n = T.int64()
        with R.dataflow():
            lv5: R.Tensor((2 * n,), dtype="uint64") = R.cumprod(gv2, dtype="uint64")
            R.output()
        return gv

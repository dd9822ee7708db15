# cuda: Disagreement at agreement.py:require_agreement
# expected array(-1.30398599)
# found ShapeMismatchError('a DeviceArray whose memory cannot be shared: DLPack has no float8_e5m2fnuz')

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x1: R.Tensor((1, "n + 1", 1), dtype="int16"), number: R.Prim("int64"), pair: R.Tuple(R.Tensor(("n", "n", "n"), dtype="float8_e5m2fnuz"), R.Tensor(("n",), dtype="float32")), gv: R.Tensor((), dtype="float64")) -> R.Tensor((), dtype="float64"):
        n = T.int64()
        @R.function
        def closure(p0: R.Tuple(R.Tensor(("n", "n", "n"), dtype="float8_e5m2fnuz"), R.Tensor(("n",), dtype="float32")), p1: R.Tensor((1, "n + 1", 1), dtype="int16")) -> R.Tuple(R.Tuple(R.Tensor(("n", "n", "n"), dtype="float8_e5m2fnuz"), R.Tensor(("n",), dtype="float32")), R.Tensor((1, "n + 1", 1), dtype="int16"), R.Prim("int64")):
            return (p0, x1, number)
        gv2: R.Tuple(R.Tuple(R.Tensor((n, n, n), dtype="float8_e5m2fnuz"), R.Tensor((n,), dtype="float32")), R.Tensor((1, n + 1, 1), dtype="int16"), R.Prim("int64")) = closure(pair, x1)
        return gv

# cpu: Disagreement at checks.py:cpu
# interpreted: ShapeMismatchError('bucketize: boundaries: expected ascending numbers, found a decrease')
# compiled: array([ 0.17622249, -0.91610867,  0.20576933], dtype=float32)

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def helper_0(d0: R.Tensor(("n",), dtype="float32")) -> R.Tensor(("n",), dtype="float32"):
        n = T.int64()
        with R.dataflow():
            coarse1: R.Tensor(ndim=1) = R.bucketize(d0, d0)
            gv: R.Tensor(ndim=1) = coarse1
            R.output(gv)
        gv2 = R.match_cast(gv, R.Tensor((n,)))
        return d0

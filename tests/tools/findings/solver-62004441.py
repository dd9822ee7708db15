# solver: WellFormedError updates must have _ axes, not _
# error: scatter_nd: updates must have 4 axes, not 3
#    = updates has 3 axes   from updates[j0, j1, t0, t1]   x1: R.Tensor((n * n, n + 1, 1), dtype="int32")
#    = hint: the line of scatter_nd is data[n0, n1, n2], indices[j0, j1, 1], updates[j0, j1, t0, t1] -> y[indices[j0, j1, 0] : n0, t0 : n1, t1 : n2]

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function(private=True)
    def helper_1(x0: R.Tensor(("n * n", 2), dtype="float64"), x1: R.Tensor(("n * n", "n + 1", 1), dtype="int32"), x2: R.Tensor((), dtype="float32"), d0: R.Tensor(("n",), dtype="float32"), unknown: R.Tensor(dtype="float32", ndim=2)) -> R.Tensor(dtype="float32", ndim=2):
        n = T.int64()
        found = T.int64()
        gv9 = R.match_cast(x1, R.Tensor((n * n, n + 1, found), dtype="int32"))
        with R.dataflow():
            lv2: R.Tensor((n * n, n + 1, found), dtype="int32") = R.scatter_nd(gv9, gv9, x1)
            R.output()
        return unknown

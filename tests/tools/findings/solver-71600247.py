# solver: Unsatisfiable conflicting shapes: cannot unify the axes labelled axis_ and axis_
# error[E0406]: conflicting shapes: cannot unify the axes labelled axis0 and axis1
#    = note: parameter `x0`
#    = note: `lv` is defined here

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x0: R.Tensor(("k:axis0", "n:axis1"), dtype="float32"), gv3: R.Tensor(("k", "2 * n"), dtype="float32")) -> R.Tensor(("k", "2 * n"), dtype="float32"):
        k = T.int64()
        n = T.int64()
        with R.dataflow():
            lv: R.Tensor((n, k), dtype="float32") = R.broadcast_to(x0, (n, k))
            R.output()
        return gv3

# cuda: TypeError at kernels.py:<lambda>
# 'DeviceArray' object is not subscriptable

from structir.script import I, R, T


@I.ir_module
class Module:
    @I.kernel
    def kernel0(x: R.Tensor(("n",), dtype="float32"), y: R.Tensor(("n",), dtype="int64")):
        for i in range(n):
            total = T.int64(0)
            for j in range(n):
                if True:
                    continue
                total += T.int64(min(T.sigmoid(T.float64(1.5)), T.float64(x[i])))
            y[i] = total

    @R.function
    def main(x: R.Tensor(("n",), dtype="float32")) -> R.Tensor(("n",), dtype="int64"):
        cls = Module
        n = T.int64()
        y: R.Tensor((n,), dtype="int64") = R.call_kernel(cls.kernel0, (x,), out_sinfo=R.Tensor((n,), dtype="int64"))
        return y

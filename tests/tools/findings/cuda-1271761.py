# cuda: TypeError at kernels.py:<lambda>
# 'DeviceArray' object is not subscriptable

from structir.script import I, R, T


@I.ir_module
class Module:
    @I.kernel
    def kernel0(x0: R.Tensor((2, 3), dtype="float32"), x1: R.Tensor(("k",), dtype="float32"), y0: R.Tensor(("k",), dtype="bool")):
        for i1 in range(k):
            v2 = i1
            v3 = x1[i1]
            if T.bool(x1[i1]):
                y0[i1] = T.bool(v3)
            else:
                y0[i1] = T.floor(x1[i1]) * abs(x1[i1]) > (v3 if T.bool(True) else abs(x1[i1]))

    @R.function(private=True)
    def helper_0(x0: R.Tensor(("m",), dtype="int32"), x1: R.Tensor((), dtype="float32"), x2: R.Tensor(("*s", "m", "n + 1", "k"), dtype="float32"), d0: R.Tensor(("n",), dtype="float32"), d1: R.Tensor(("m",), dtype="float32"), d2: R.Tensor(("k",), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
        cls = Module
        m = T.int64()
        n = T.int64()
        k = T.int64()
        gv2: R.Tensor((2, 3), dtype="float32") = R.sin(R.const([[0.53125, 0.46875, 0.28125], [0.65625, 0.21875, 0.21875]], "float32"))
        gv3: R.Tensor((k,), dtype="bool") = R.call_kernel(cls.kernel0, (gv2, d2), out_sinfo=R.Tensor((k,), dtype="bool"))
        return gv2

    @R.function
    def main(gv1: R.Tensor((6,), dtype="float32")) -> R.Tensor((6,), dtype="float32"):
        cls = Module
        gv: R.Tensor((2, 3), dtype="float32") = cls.helper_0(R.const([2], "int32"), R.const(0.44611552, "float32"), R.const([[[[-0.3655897, 0.8615462], [0.9825598, 0.6016253], [-1.9430046, 0.8644252]]], [[[1.37128, -0.19535935], [-0.19969775, 0.5016813], [0.26973227, -1.2914405]]]], "float32"), R.const([-0.87364715, 1.268713], "float32"), R.const([-1.0728468], "float32"), R.const([0.77218765, 0.2555373], "float32"))
        return gv1

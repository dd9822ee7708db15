# shards: KeyError at forms.py:_atom
# found

from structir.script import I, R, T


@I.ir_module
class Module:
    @R.function
    def main(x0: R.Tensor(("n + 1", "n + 1"), dtype="int32"), d0: R.Tensor(("n",), dtype="float32"), number: R.Prim("int64"), gv: R.Tensor((), dtype="int32"), gv3: R.Tensor(("n + 1", 1, "n + 1"), dtype="int32"), lv2: R.Tensor((2, 2), dtype="float16"), gv4: R.Tensor((2, 2), dtype="float16")) -> R.Tensor(dtype="int32", ndim=2):
        n = T.int64()
        found = T.int64()
        with R.dataflow():
            lv = R.match_cast(x0, R.Tensor((n + 1, found), dtype="int32"))
            gv2: R.Tensor((n + 1, found), dtype="int32") = lv
            R.output(gv2)
        with R.dataflow():
            lv3: R.Tensor((2, 2), dtype="float16") = R.roll(gv4, found, axis=[1, 0])
            R.output()
        return gv2

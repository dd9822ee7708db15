# shards: TypeError at dtype.py:numpy_dtype
# data type 'None' not understood

from structir.script import I, R


@I.ir_module
class Module:
    @R.function
    def main(gv3: R.Tensor(())) -> R.Tensor(()):
        return gv3

"""Kernels for tests of the cache and of the runner."""

import structir
from structir.loops.emit.code import code_of

TEXT = """
@I.kernel
def scaled(x: R.Tensor(({size},), "float32"), y: R.Tensor(({size},), "float32")):
    low, high = T.part({size})
    for i in range(low, high):
        y[i] = x[i] * {factor}
"""


def scaled(factor, size=6):
    """The source and the code of a kernel from one array to another one."""
    kernel = structir.parse(TEXT.format(factor=factor, size=size))["scaled"]
    code = code_of(kernel, is_generated=True)
    return code.key, code.assembled

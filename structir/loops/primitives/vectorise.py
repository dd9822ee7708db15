"""Marks a loop whose iterations may run in any order, several at a time."""

from __future__ import annotations

from structir.ir.kernel import For, Kernel
from structir.ir.node import replace
from structir.loops.edits import exchange
from structir.loops.legality import require_no_jump, require_order_free
from structir.loops.loop_tree import loop_tree
from structir.loops.primitive import Example, primitive
from structir.printer.syntax import VECTORIZED

EXAMPLE = Example(
    'x: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")',
    """
for i in range(n):
    out[i] = x[i] * 2.0
""",
    ("i",),
)


@primitive(example=EXAMPLE)
def vectorise(kernel: Kernel, loop: For) -> Kernel:
    """Marks a loop to be run in vectors; LLVM masks the last one where that is faster.

    Iterations must not depend on each other. Sums of floats are marked by `reassociate` before.
    """
    require_no_jump(loop, "vectorise")
    require_order_free(loop_tree(kernel), loop, "vectorise")
    return exchange(kernel, loop, replace(loop, kind=VECTORIZED))

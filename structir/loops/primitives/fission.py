"""Splits the body of a loop into two loops."""

from __future__ import annotations

from structir.ir.kernel import For, Kernel, LoopVariable
from structir.ir.node import replace
from structir.loops.edits import exchange, with_values
from structir.loops.legality import require_fixed_bounds, require_no_jump
from structir.loops.loop_tree import loop_tree
from structir.loops.primitive import Example, primitive
from structir.loops.primitives.fuse import require_fusible
from structir.loops.refusal import refusal

EXAMPLE = Example(
    'x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32"), '
    'out: R.Tensor(("n",), "float32")',
    """
for i in range(n):
    y[i] = x[i] * 2.0
    out[i] = y[i] + x[i]
""",
    ("i", 1),
)


@primitive(example=EXAMPLE)
def fission(kernel: Kernel, loop: For, at: int) -> Kernel:
    """Makes two loops of one: over its first `at` statements, then over the others.

    The first statements must not need what the others do in earlier iterations. A scalar or local
    array that passes a value within an iteration is expanded first.
    """
    name, count = loop.variable.name, len(loop.body)
    if not 0 < at < count:
        message = f"expected a number of statements of `{name}` from 1 to {count - 1}, found {at}"
        raise refusal("E1117", message, loop, help=f"fission({name!r}, {max(count - 1, 1)})")
    require_no_jump(loop, "split the body of")
    tree = loop_tree(kernel)
    require_fusible(tree, loop, at)
    require_fixed_bounds(tree, loop, "split the body of")
    second = replace(loop, body=loop.body[at:])
    variable = LoopVariable(tree.fresh(name), "int64")
    second = with_values(replace(second, variable=variable), {loop.variable: variable})
    return exchange(kernel, loop, replace(loop, body=loop.body[:at]), second)

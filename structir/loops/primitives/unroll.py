"""Writes out the iterations of a short loop."""

from __future__ import annotations

from structir.ir import dims
from structir.ir.kernel import For, Kernel
from structir.loops.edits import calculate, duplicate, exchange, integer, with_values
from structir.loops.legality import require_no_jump
from structir.loops.loop_tree import loop_tree
from structir.loops.primitive import Example, primitive
from structir.loops.refusal import refusal

EXAMPLE = Example(
    'x: R.Tensor(("n", 3), "float32"), out: R.Tensor(("n",), "float32")',
    """
for i in range(n):
    for j in range(3):
        out[i] += x[i, j]
""",
    ("j",),
)


@primitive(example=EXAMPLE)
def unroll(kernel: Kernel, loop: For, most: int = 16) -> Kernel:
    """Replaces a loop of a constant number of iterations, at most `most`, by its iterations."""
    tree, name = loop_tree(kernel), loop.variable.name
    start, stop = tree.index(loop.start), tree.index(loop.stop)
    distance = None if start is None or stop is None else stop - start
    if not isinstance(distance, int):
        found = "a number that depends on data" if distance is None else dims.text(distance)
        message = f"expected a constant number of iterations of `{name}`, found {found}"
        help = f"split it first: `split({name!r}, 4, 'peel')`, and unroll the inner loop"
        raise refusal("E1117", message, loop, help=help)
    offsets = range(0, distance, loop.step)
    if len(offsets) > most:
        message = f"expected at most {most} iterations of `{name}`, found {len(offsets)}"
        raise refusal("E1117", message, loop, help=f"unroll({name!r}, {len(offsets)})")
    require_no_jump(loop, "unroll")
    taken: set[str] = set()
    first = with_values(loop.body, {loop.variable: loop.start}) if offsets else ()
    iterations = [
        duplicate(tree, loop.body, taken, {loop.variable: calculate("add", loop.start, by)})
        for by in map(integer, offsets[1:])
    ]
    return exchange(kernel, loop, *first, *[s for body in iterations for s in body])

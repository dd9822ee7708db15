"""Runs the iterations of the outermost loop in several threads."""

from __future__ import annotations

import attrs

from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.kernel import Apply, For, Kernel, KernelStatement, Local, Part, Scratch
from structir.ir.node import replace
from structir.loops.edits import calculate, integer
from structir.loops.initialisation import first_uninitialised_read, surely_written
from structir.loops.legality import require_no_jump, require_order_free
from structir.loops.loop_tree import LoopTree, loop_tree
from structir.loops.primitive import Example, primitive
from structir.loops.refusal import refusal

EXAMPLE = Example(
    'x: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")',
    """
for i in range(n):
    out[i] = x[i] * 2.0
""",
    ("i",),
)


@primitive(example=EXAMPLE)
def parallel(kernel: Kernel, loop: For) -> Kernel:
    """Divides the loop that is the whole kernel into parts that may run in several threads.

    Iterations must not depend on each other, and each part must fill what it is the only one to
    fill: results of a kernel in parts are not zero at the start.
    """
    tree = loop_tree(kernel)
    extent = require_whole_kernel(tree, loop)
    require_no_jump(loop, "run in parts")
    require_order_free(tree, loop, "run in parts", sums=False)
    require_filled_results(tree, loop)
    low, high = (Local(tree.fresh(name), "int64") for name in ("low", "high"))
    arrays = [s for s in kernel.body if isinstance(s, Scratch)]
    own: list[KernelStatement] = [replace(s) for s in arrays]
    own += [Part(low, high, extent), _part_of(loop, low, high)]
    return attrs.evolve(kernel, body=tuple(own))


def require_whole_kernel(tree: LoopTree, loop: For) -> Dim:
    """Returns the number of iterations of a loop; refuses one that is not the whole kernel.

    The iterations of a loop in steps are the blocks of `split`.
    """
    name = loop.variable.name
    others = [s for s in tree.kernel.body if s is not loop and not isinstance(s, Scratch)]
    if others or tree.ancestors[loop] or tree.kernel.blocks is not None:
        other = [("beside it", s) for s in (*others, *tree.ancestors[loop])][:1]
        message = f"expected `{name}` to be the whole kernel, found other statements"
        help = "fuse the loops of the kernel first, and run the outermost one in parts"
        raise refusal("E1117", message, ("loop", loop), *other, help=help)
    start, stop = tree.index(loop.start), tree.index(loop.stop)
    if stop is None or start != 0 or loop.step < 1:
        found = f"range({loop.start}, {loop.stop}, {loop.step})"
        message = f"expected `{name}` to count from 0 to a size, found {found}"
        raise refusal("E1117", message, loop, help=f"write `for {name} in range(n)`")
    return dims.ceildiv(stop, loop.step)


def _part_of(loop: For, low: Local, high: Local) -> For:
    """Returns the iterations of a loop whose numbers are in a part."""
    if loop.step == 1:
        return replace(loop, start=low, stop=high)
    start, end = (calculate("mul", bound, integer(loop.step)) for bound in (low, high))
    return replace(loop, start=start, stop=Apply("min", (end, loop.stop), "int64"))


def require_filled_results(tree: LoopTree, loop: For) -> None:
    """Refuses a loop that reads, or leaves as it is, an element of a result.

    A kernel without parts starts with results of zeros.
    """
    for result in tree.kernel.results:
        read = first_uninitialised_read(tree, result, loop.body)
        if read is not None:
            message = f"expected `{result.name}` to be written before it is read, found a read"
            help = f"set the element before: `{result.name}[...] = 0.0`"
            places = (("loop", loop), ("reads it", read))
            raise refusal("E1118", message, *places, help=help)
        if not surely_written(tree, result, (loop,)):
            message = f"expected `{loop.variable.name}` to fill all of `{result.name}`, found gaps"
            help = f"set all elements in the loop first: `{result.name}[...] = 0.0`"
            raise refusal("E1118", message, loop, help=help)

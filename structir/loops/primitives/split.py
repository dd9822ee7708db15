"""Splits a loop into a loop over blocks and a loop over the iterations of a block."""

from __future__ import annotations

from structir.ir import dims
from structir.ir.kernel import Apply, For, Kernel, LoopVariable
from structir.ir.node import replace
from structir.loops.edits import calculate, exchange, integer, over
from structir.loops.legality import require_fixed_bounds, require_no_break
from structir.loops.loop_tree import loop_tree
from structir.loops.primitive import Example, primitive
from structir.loops.refusal import refusal

EXAMPLE = Example(
    'x: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")',
    """
for i in range(n):
    out[i] = x[i] * 2.0
""",
    ("i", 8),
)
TAILS = ("guard", "exact", "peel")


@primitive(example=EXAMPLE)
def split(kernel: Kernel, loop: For, factor: int, tail: str = "guard") -> Kernel:
    """Splits a loop into one over blocks of `factor` iterations and one over a block.

    The variable keeps its meaning, so no index changes. The last block is cut by `min` ("guard"),
    is a loop of its own ("peel"), or is known to be whole ("exact").
    """
    tree, name = loop_tree(kernel), loop.variable.name
    if loop.step != 1 or factor < 1:
        message = f"expected a step of 1 and a positive factor, found {loop.step} and {factor}"
        raise refusal("E1117", message, loop, help=f"split(`{name}`) with a factor such as 8")
    if tail not in TAILS:
        message = f"tail: expected one of {', '.join(TAILS)}, found {tail!r}"
        raise refusal("E1115", message, loop, help=f"split({name!r}, {factor}, 'guard')")
    require_no_break(loop, "split")
    require_fixed_bounds(tree, loop, "split")
    block = LoopVariable(tree.fresh(f"{name}_0"), "int64")
    end = calculate("add", block, integer(factor))
    if tail == "peel":
        return _peeled(kernel, loop, factor, block)
    if tail == "exact":
        require_whole_blocks(kernel, loop, factor)
        stop = end
    else:
        stop = Apply("min", (end, loop.stop), "int64")
    inner = replace(loop, start=block, stop=stop)
    return exchange(kernel, loop, For(block, loop.start, loop.stop, factor, (inner,), loop.span))


def _peeled(kernel: Kernel, loop: For, factor: int, block: LoopVariable) -> Kernel:
    """Returns the kernel with a loop over whole blocks, and one over the remaining iterations."""
    count = calculate("sub", loop.stop, loop.start)
    whole = calculate("mul", calculate("floordiv", count, integer(factor)), integer(factor))
    middle = calculate("add", loop.start, whole)
    tree = loop_tree(kernel)
    rest = LoopVariable(tree.fresh(f"{loop.variable.name}_rest"), "int64")
    inner = replace(loop, start=block, stop=calculate("add", block, integer(factor)))
    blocks = For(block, loop.start, middle, factor, (inner,), loop.span)
    return exchange(kernel, loop, blocks, over(tree, replace(loop, start=middle), rest))


def require_whole_blocks(kernel: Kernel, loop: For, factor: int) -> None:
    """Refuses a loop whose number of iterations is not a known multiple of the factor."""
    tree, name = loop_tree(kernel), loop.variable.name
    start, stop = tree.index(loop.start), tree.index(loop.stop)
    if (
        start is None
        or stop is None
        or dims.equal(dims.floormod(stop - start, factor), 0) is not True
    ):
        count = "a number that depends on data" if start is None or stop is None else stop - start
        message = f"expected a multiple of {factor} iterations of `{name}`, found {count}"
        raise refusal(
            "E1117", message, loop, help=f"cut the last block: `split({name!r}, {factor})`"
        )

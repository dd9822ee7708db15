"""Loop skewing: adds a multiple of an outer loop variable to the variable of a loop."""

from __future__ import annotations

from typing import Any

from structir.ir import dims
from structir.ir.kernel import Apply, For, Kernel, LoopVariable, Scalar
from structir.ir.node import replace
from structir.loops.schedule.edits import calculate, exchange, integer, substitute
from structir.loops.schedule.loop_tree import LoopTree, loop_tree
from structir.loops.schedule.nests import depends_on
from structir.loops.schedule.primitive import positive, primitive
from structir.loops.schedule.refusal import refusal
from structir.loops.schedule.regions import expression, extremum


@primitive
def skew(kernel: Kernel, loop: str, outer: str, factor: int = 1) -> Kernel:
    """Adds `factor` times the variable of an outer loop to the variable of a loop.

    Where indices are `factor * outer + loop`, a loop over the positions in a block becomes a loop
    over the indices of the block.
    """
    tree = loop_tree(kernel)
    old, around = tree.loop(loop), tree.loop(outer)
    positive(factor, "factor")
    if not _is_around(tree, around, old):
        raise refusal(
            "E1116",
            f"expected `{loop}` to be a loop in `{outer}`",
            ("loop", old),
            ("outer", around),
            help=f'name a loop around it: `skew("{outer}", "{loop}")`',
        )
    variable = LoopVariable(loop, "int64", old.variable.span)
    offset = calculate("mul", integer(factor), around.variable)
    shift = dims.as_dim(tree.symbol(around.variable)) * factor
    moved = dims.as_dim(tree.symbol(variable)) - shift

    def change(part: Any) -> Any:
        if part is old.variable:
            return calculate("sub", variable, offset)
        if not isinstance(part, Apply) or not depends_on(part, old.variable):
            return None
        index = tree.index(part)
        values = {tree.symbol(old.variable): moved}
        return None if index is None else expression(tree, dims.substitute(index, values))

    def end(scalar: Scalar) -> Scalar:
        return _plus(tree, scalar, shift) or calculate("add", scalar, offset)

    body = tuple([substitute(statement, change) for statement in old.body])
    new = replace(old, variable=variable, start=end(old.start), stop=end(old.stop), body=body)
    return exchange(kernel, old, new)


def _is_around(tree: LoopTree, outer: For, loop: For) -> bool:
    return outer in tree.loops_around(loop)


def _plus(tree: LoopTree, scalar: Scalar, shift: dims.Dim) -> Scalar | None:
    """Returns a bound of a loop plus a dim; None if it depends on data."""
    if isinstance(scalar, Apply) and scalar.fn in ("min", "max"):
        sums = [_plus(tree, arg, shift) for arg in scalar.args]
        return None if None in sums else extremum(scalar.fn, [s for s in sums if s is not None])
    index = tree.index(scalar)
    return None if index is None else expression(tree, index + shift)


skew.example(
    """
@I.kernel
def scale(x: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")):
    n = T.int64()
    for b in range(0, n, 64):
        for i in range(min(64, n - b)):
            out[b + i] = 2.0 * x[b + i]
""",
    "i",
    "b",
)

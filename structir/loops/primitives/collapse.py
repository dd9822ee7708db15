"""Makes one loop of a loop and the loop inside it."""

from __future__ import annotations

from typing import Any

from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.kernel import Apply, Element, For, Kernel, Local, LoopVariable, Scalar
from structir.ir.node import replace
from structir.loops.edits import calculate, exchange, integer, size, substitute
from structir.loops.legality import require_fixed_bounds, require_no_break
from structir.loops.loop_tree import LoopTree, loop_tree
from structir.loops.nests import only_loop_in
from structir.loops.primitive import Example, primitive
from structir.loops.primitives.reorder import require_own_bounds
from structir.loops.refusal import refusal

EXAMPLE = Example(
    'x: R.Tensor(("n", "m"), "float32"), b: R.Tensor(("m",), "float32"), '
    'out: R.Tensor(("n", "m"), "float32")',
    """
for i in range(n):
    for j in range(m):
        out[i, j] = x[i, j] + b[j]
""",
    ("i",),
)


@primitive(example=EXAMPLE)
def collapse(kernel: Kernel, outer: For) -> Kernel:
    """Makes one loop of a loop and the loop that is its whole body.

    Elements at both variables of arrays of the same extents become `x.flat[ij]`. Elsewhere the
    variables become a quotient and a remainder.
    """
    tree, inner = loop_tree(kernel), only_loop_in(outer)
    require_own_bounds(outer, inner)
    require_no_break(inner, "collapse")
    require_fixed_bounds(tree, outer, "collapse")
    extents = (_extent(tree, outer), _extent(tree, inner))
    name = f"{outer.variable.name}{inner.variable.name}"
    both = LoopVariable(tree.fresh(name), "int64")
    flat = _Collapsed(tree, outer.variable, inner.variable, both, extents)
    body = tuple([substitute(statement, flat.of) for statement in inner.body])
    loop = For(both, integer(0), size(extents[0] * extents[1]), 1, body, outer.span)
    return exchange(kernel, outer, loop)


def _extent(tree: LoopTree, loop: For) -> Dim:
    """Returns the number of iterations of a loop from 0; raises ScheduleError for others."""
    stop = tree.index(loop.stop)
    if tree.index(loop.start) != 0 or stop is None or loop.step != 1 or _is_moving(tree, stop):
        name = loop.variable.name
        found = f"range({loop.start}, {loop.stop}, {loop.step})"
        message = f"expected `{name}` to count from 0 to a size in steps of 1, found {found}"
        raise refusal("E1117", message, loop, help=f"collapse before `split({name!r}, ...)`")
    return stop


def _is_moving(tree: LoopTree, dim: Dim) -> bool:
    return bool(dims.syms(dim) & set(tree.facts.symbols.values()))


class _Collapsed:
    """What becomes of the variables of two loops, and of the elements at them."""

    def __init__(
        self, tree: LoopTree, outer: Local, inner: Local, both: Local, extents: tuple[Dim, Dim]
    ) -> None:
        self.tree, self.pair, self.both, self.extents = tree, (outer, inner), both, extents
        width = size(extents[1])
        self.values: dict[Any, Scalar] = {
            outer: Apply("floordiv", (both, width), "int64"),
            inner: Apply("mod", (both, width), "int64"),
        }

    def of(self, part: Any) -> Any:
        """Returns the replacement of a part of a statement; None for one that is searched."""
        if isinstance(part, Element) and not part.flat:
            axis = self.axis_of(part)
            return None if axis is None else self.flat(part, axis)
        return self.values.get(part) if isinstance(part, Local) else None

    def axis_of(self, element: Element) -> int | None:
        """Returns the first of two axes that an element is at both variables of."""
        shape = self.tree.shape(element.array)
        for axis in range(len(shape) - 1):
            at_both = element.indices[axis : axis + 2] == self.pair
            if at_both and all(
                dims.equal(a, b) is True
                for a, b in zip(shape[axis : axis + 2], self.extents, strict=True)
            ):
                return axis
        return None

    def flat(self, element: Element, axis: int) -> Element:
        """Returns an element by its position among all elements of its array."""
        shape = list(self.tree.shape(element.array))
        indices = [substitute(index, self.of) for index in element.indices]
        indices[axis : axis + 2] = [self.both]
        shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
        position: Scalar = integer(0)
        for index, extent in zip(indices, shape, strict=True):
            position = calculate("add", calculate("mul", position, size(extent)), index)
        return replace(element, indices=(position,), flat=True)

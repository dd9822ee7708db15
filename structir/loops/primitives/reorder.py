"""Exchanges a loop and the loop inside it."""

from __future__ import annotations

from structir.ir.kernel import For, Kernel
from structir.ir.node import replace
from structir.loops.accesses import Access, expressions
from structir.loops.edits import exchange
from structir.loops.legality import (
    accumulated,
    conflicts,
    dependence,
    is_private,
    meets_later,
    require_fixed_bounds,
    require_no_jump,
)
from structir.loops.loop_tree import LoopTree, loop_tree
from structir.loops.nests import only_loop_in
from structir.loops.primitive import Example, primitive
from structir.loops.refusal import refusal

EXAMPLE = Example(
    'x: R.Tensor(("n", "m"), "float32"), out: R.Tensor(("m", "n"), "float32")',
    """
for i in range(n):
    for j in range(m):
        out[j, i] = x[i, j]
""",
    ("i",),
)


@primitive(example=EXAMPLE)
def reorder(kernel: Kernel, outer: For) -> Kernel:
    """Exchanges a loop and the loop that is its whole body.

    Two accesses of one element must be in the same iteration of one of both loops.
    """
    tree = loop_tree(kernel)
    inner = only_loop_in(outer)
    require_own_bounds(outer, inner)
    require_no_jump(inner, "reorder")
    require_fixed_bounds(tree, outer, "reorder")
    require_exchangeable(tree, outer, inner)
    inside = replace(outer, body=inner.body)
    return exchange(kernel, outer, replace(inner, body=(inside,), kind=""))  # now of more accesses


def require_own_bounds(outer: For, inner: For) -> None:
    """Refuses a loop whose bounds depend on the loop around it."""
    for bound in (inner.start, inner.stop):
        if any(part is outer.variable for part in expressions(bound)):
            name = inner.variable.name
            message = (
                f"expected bounds of `{name}` that do not depend on `{outer.variable.name}`, "
                f"found `{bound}`"
            )
            help = f"iterate over all of `{name}`, with an `if` inside"
            raise refusal("E1117", message, ("outer loop", outer), ("inner loop", inner), help=help)


def require_exchangeable(tree: LoopTree, outer: For, inner: For) -> None:
    """Refuses accesses whose order the exchange would change."""
    accesses = tree.accesses(inner.body)

    def exchanged(one: Access, other: Access) -> bool:
        """Whether the second access may be later in one loop and earlier in the other."""
        return meets_later(tree, one, other, outer) and meets_later(
            tree, other, one, inner, (outer,)
        )

    ordered = accumulated(accesses)
    for one, other in conflicts(accesses, accesses, exchanged, ordered.__contains__):
        if not (is_private(tree, one.memory, inner) and is_private(tree, one.memory, outer)):
            raise dependence(tree, outer, one, other, "reorder")

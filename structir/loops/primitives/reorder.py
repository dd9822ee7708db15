"""Reorders perfectly nested loops."""

from __future__ import annotations

from structir.ir.kernel import For, Kernel
from structir.ir.node import replace
from structir.loops.schedule.accesses import Access
from structir.loops.schedule.edits import exchange
from structir.loops.schedule.legality import accumulated, conflicts, is_private, meets_later
from structir.loops.schedule.loop_tree import LoopTree, derive, loop_tree
from structir.loops.schedule.nests import (
    dependence,
    only_loop_in,
    refuse_dependent_bounds,
    refuse_jumps,
    refuse_varying_bounds,
)
from structir.loops.schedule.primitive import primitive
from structir.loops.schedule.refusal import refusal


@primitive
def reorder(kernel: Kernel, *loops: str) -> Kernel:
    """Reorders perfectly nested loops; the names are given outermost first.

    Refused if the new order would violate a dependence.
    """
    nest = [loop_tree(kernel).loop(name) for name in loops]
    if len(loops) < 2 or len(set(loops)) < len(loops):
        message = f"expected two or more different loops, found {len(set(loops))}"
        raise refusal("E1115", message, *nest[:1], help='write `reorder("j", "i")`')
    for end in range(len(loops) - 1, 0, -1):  # bubble sort by loop interchange
        kernel = _bubble(kernel, loops, end)
    return kernel


def _bubble(kernel: Kernel, loops: tuple[str, ...], end: int) -> Kernel:
    """Moves the loop that comes last in the new order inward, by up to `end` interchanges."""
    tree = loop_tree(kernel)
    outer = min((tree.loop(name) for name in loops), key=lambda loop: len(tree.ancestors[loop]))
    for _ in range(end):
        inner = only_loop_in(outer)
        name = inner.variable.name
        if name not in loops:
            raise refusal(
                "E1116",
                f"`{name}` is between the loops, but is not named",
                ("between", inner),
                help=f'name all loops of the nest, including "{name}"',
            )
        if loops.index(outer.variable.name) > loops.index(name):
            kernel = derive(_interchanged(kernel, outer, inner), kernel)
            outer = loop_tree(kernel).loop(outer.variable.name)
        else:
            outer = inner
    return kernel


def _interchanged(kernel: Kernel, outer: For, inner: For) -> Kernel:
    tree = loop_tree(kernel)
    refuse_dependent_bounds(outer, inner)
    for loop in (outer, inner):
        refuse_jumps(loop)
        refuse_varying_bounds(tree, loop, outer)
    _refuse_dependences(tree, outer, inner)
    # A vector loop is only proved independent within one iteration of the outer loop.
    new = replace(inner, kind="", body=(replace(outer, body=inner.body),))
    return exchange(kernel, outer, new)


def _refuse_dependences(tree: LoopTree, outer: For, inner: For) -> None:
    accesses = tree.accesses(inner.body)
    sums = accumulated(accesses)

    def changes_order(first: Access, second: Access) -> bool:
        """Whether interchange reverses a dependence: the second access is later in the outer loop
        and earlier in the inner one."""
        return meets_later(tree, first, second, outer) and meets_later(
            tree, second, first, inner, free=(outer,)
        )

    pairs = conflicts(
        accesses,
        accesses,
        changes_order,
        lambda memory: memory in sums or is_private(tree, memory, inner.body, outer),
    )
    pair = next(pairs, None)
    if pair is not None:
        names = f"`{outer.variable.name}` and `{inner.variable.name}`"
        raise dependence(
            f"iterations of {names} depend on each other",
            pair,
            help="keep this order, or write the results to an array that is not read here",
        )


reorder.example(
    """
@I.kernel
def total(x: R.Tensor(("n", "m"), "float32"), out: R.Tensor(("m",), "float32")):
    n = T.int64()
    m = T.int64()
    for j in range(m):
        for i in range(n):
            out[j] = out[j] + x[i, j]
""",
    "i",
    "j",
)

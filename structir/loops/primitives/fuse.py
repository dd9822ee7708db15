"""Fuses two loops over the same range."""

from __future__ import annotations

from collections.abc import Sequence

from structir.ir import dims
from structir.ir.kernel import For, Kernel, KernelStatement, Scalar
from structir.ir.node import replace
from structir.loops.schedule.accesses import is_same
from structir.loops.schedule.edits import exchange_all, with_values
from structir.loops.schedule.legality import Pair, conflicts, reversed_pairs
from structir.loops.schedule.loop_tree import LoopTree, derive, jumps, loop_tree
from structir.loops.schedule.nests import dependence, following, refuse_jumps, refuse_varying_bounds
from structir.loops.schedule.primitive import primitive
from structir.loops.schedule.refusal import refusal


@primitive
def fuse(kernel: Kernel, first: str, second: str) -> Kernel:
    """Fuses two loops over the same range into one, over the variable of the first.

    The second loop must follow in the same block. A statement between the loops moves before both,
    or after both if it depends on the first. Refused if it depends on both, or if an iteration of
    the second loop depends on a later iteration of the first one. The fused loop is not vectorised.
    """
    tree = loop_tree(kernel)
    one, other = tree.loop(first), tree.loop(second)
    between = _between(tree, one, other)
    for loop in (one, other):
        refuse_jumps(loop, also_continue=True)
        refuse_varying_bounds(tree, loop)
    _require_same_range(tree, one, other)
    before, after = _moved(tree, between, one, other)
    moved = [with_values(statement, {other.variable: one.variable}) for statement in other.body]
    joined = replace(one, kind="", body=(*one.body, *moved))
    exchanges: dict[KernelStatement, Sequence[KernelStatement]] = {one: (*before, joined, *after)}
    exchanges |= {statement: () for statement in (*between, other)}
    new = derive(exchange_all(kernel, exchanges), kernel)
    _refuse_dependences(loop_tree(new), joined, len(one.body))
    return new


def _between(tree: LoopTree, one: For, other: For) -> tuple[KernelStatement, ...]:
    """Returns the statements between two loops of one block."""
    block = tree.block_of(one)
    if all(statement is not other for statement in block) or other is one:
        position = -1
    else:
        position = following(block, other)
    start = following(block, one) + 1
    if position < start:
        raise refusal(
            "E1116",
            f"expected `{other.variable.name}` after `{one.variable.name}` in the same block",
            ("first", one),
            ("second", other),
            help="fuse the loops around them first, and name the earlier loop first",
        )
    return block[start:position]


def _require_same_range(tree: LoopTree, one: For, other: For) -> None:
    bounds = ((one.start, other.start), (one.stop, other.stop))
    if one.step != other.step or not all(_is_equal(tree, a, b) for a, b in bounds):
        raise refusal(
            "E1116",
            f"expected equal ranges, found range({one.start}, {one.stop}, {one.step}) and "
            f"range({other.start}, {other.stop}, {other.step})",
            ("first", one),
            ("second", other),
            help='give both loops one range: `split(..., "peel")` separates the common iterations',
        )


def _is_equal(tree: LoopTree, one: Scalar, other: Scalar) -> bool:
    first, second = tree.index(one), tree.index(other)
    if first is None or second is None:
        return is_same(one, other)
    return dims.equal(first, second) is True


def _moved(
    tree: LoopTree, between: Sequence[KernelStatement], one: For, other: For
) -> tuple[list[KernelStatement], list[KernelStatement]]:
    """Returns the statements between two loops that move before both, and those that move after
    both. Refuses statements that jump, or that depend on both loops."""
    jump = jumps(between)
    if jump is not None:
        raise refusal(
            "E1116",
            f"expected no jump between the loops, found a `{jump}`",
            ("first", one),
            ("jump", jump),
            help="move the jump before the first loop",
        )
    before, after = list[KernelStatement](), list[KernelStatement]()
    for statement in between:
        depends = _pair(tree, [statement], [one, *after]) is not None
        (after if depends else before).append(statement)
    pair = _pair(tree, after, [other])
    if pair is not None:
        raise dependence(
            "a statement between the loops depends on both",
            pair,
            help="move the statement out of the way in the source of the kernel",
        )
    return before, after


def _pair(
    tree: LoopTree, first: Sequence[KernelStatement], second: Sequence[KernelStatement]
) -> Pair | None:
    """Returns two accesses of the same memory, one of them a write."""
    sides = tree.accesses(first), tree.accesses(second)
    return next(conflicts(*sides, lambda one, other: True), None)


def _refuse_dependences(tree: LoopTree, joined: For, length: int) -> None:
    pair = next(reversed_pairs(tree, joined, length), None)
    if pair is not None:
        raise dependence(
            "a later iteration of the first loop precedes an iteration of the second one",
            pair,
            help="fuse loops of which the second accesses only elements of its own iteration",
        )


fuse.example(
    """
@I.kernel
def chain(
    x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")
):
    n = T.int64()
    for i in range(n):
        y[i] = 2.0 * x[i]
    for j in range(n):
        out[j] = y[j] + 1.0
""",
    "i",
    "j",
)

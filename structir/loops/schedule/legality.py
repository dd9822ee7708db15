"""Legality analyses of primitives.

1. Dependence: may two accesses touch the same element in different iterations of a loop
   (`meets_later`)?
2. Privatisation: is an array or scalar private to each iteration of a loop, that is, written before
   it is read and dead after the loop (`is_private`)?

Both hold for all sizes. They are conservative: an unknown index may have any value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.kernel import For, KernelStatement, Local, While
from structir.loops.schedule.accesses import Access
from structir.loops.schedule.bounds import extremes
from structir.loops.schedule.initialisation import Memory, first_uninitialised_read
from structir.loops.schedule.loop_tree import LoopTree

Pair = tuple[Access, Access]


# ---- 1. dependence


def meets_later(
    tree: LoopTree, first: Access, second: Access, loop: For, free: Sequence[For] = ()
) -> bool:
    """Whether a loop may carry a dependence: the second access may touch, in a later iteration, an
    element that the first one touches.

    Variables of inner loops, and of the enclosing loops in `free`, may differ between the accesses.
    """
    if first.mention.element is None or second.mention.element is None:
        return True
    varying = [_varying(access, loop, free) for access in (first, second)]
    pairs = list(_index_pairs(tree, first, second))
    step, symbol = loop.step, tree.symbol(loop.variable)
    for one, other in pairs:
        if one is None or other is None:
            continue
        ends = (_ends(tree, one, varying[0]), _ends(tree, other, varying[1]))
        is_same = one == other and varying[0] == varying[1]
        if _moves_apart(*ends, symbol, step, is_same):
            return False
        if _is_disjoint(tree, ends[0], ends[1], loop):
            return False
    return True


Ends = tuple[list[Dim], list[Dim]]  # inclusive lower and upper bounds, all of which hold


def _varying(access: Access, loop: For, free: Sequence[For]) -> list[For]:
    depth = access.loops.index(loop)
    return [outer for outer in access.loops if outer in free or outer in access.loops[depth + 1 :]]


def _index_pairs(
    tree: LoopTree, first: Access, second: Access
) -> Iterator[tuple[Dim | None, Dim | None]]:
    """Yields pairs of indices that are equal if two accesses touch the same element."""
    one, other = first.mention.element, second.mention.element
    assert one is not None and other is not None
    if one.flat == other.flat:
        yield from zip(tree.indices(one), tree.indices(other), strict=True)
    else:
        yield tree.flat_index(one), tree.flat_index(other)


def _ends(tree: LoopTree, index: Dim, varying: Sequence[For]) -> Ends:
    return extremes(tree, index, varying, False), extremes(tree, index, varying, True)


def _moves_apart(first: Ends, second: Ends, symbol: Sym, step: int, is_same: bool) -> bool:
    """Whether in all later iterations the second index is greater than the first, or always less.

    `is_same` states that both are the same expression over the same varying loops.
    """
    return any(
        _exceeds(low, high, symbol, step, is_same) for high in first[1] for low in second[0]
    ) or any(_exceeds(-high, -low, symbol, step, is_same) for low in first[0] for high in second[1])


def _exceeds(low: Dim, high: Dim, symbol: Sym, step: int, is_same: bool) -> bool:
    """Whether `low`, one or more iterations later, is greater than `high`.

    If both bound the same index, `low` is at most `high` in one iteration. Then a step that makes
    it greater is positive.
    """
    one, other = dims.linear(high, symbol), dims.linear(low, symbol)
    if one is None or other is None or one[0] != other[0]:
        return False
    advance = one[0] * step
    is_upward = is_same or dims.at_least(advance, 0)
    return bool(is_upward and dims.at_least(advance + other[1] - one[1], 1))


def _is_disjoint(tree: LoopTree, first: Ends, second: Ends, loop: For) -> bool:
    """Whether two accesses never touch the same element."""
    lows = [
        [e for d in side[0] for e in extremes(tree, d, [loop], False)] for side in (first, second)
    ]
    highs = [
        [e for d in side[1] for e in extremes(tree, d, [loop], True)] for side in (first, second)
    ]
    return any(
        dims.at_least(low, high + 1)
        for a, b in ((0, 1), (1, 0))
        for low in lows[a]
        for high in highs[b]
    )


def conflicts(
    first: Iterable[Access],
    second: Iterable[Access],
    meets: Callable[[Access, Access], bool],
    ignored: Callable[[Memory], bool] = lambda memory: False,
) -> Iterator[Pair]:
    """Yields pairs of accesses of the same memory, one of them a write, for which `meets` holds."""
    by_memory: dict[Memory, list[Access]] = {}
    for access in second:
        by_memory.setdefault(access.memory, []).append(access)
    is_ignored = cache(ignored)
    for one in first:
        for other in by_memory.get(one.memory, ()):
            writes = one.is_write or other.is_write
            if writes and not is_ignored(one.memory) and meets(one, other):
                yield one, other


def reversed_pairs(tree: LoopTree, loop: For, length: int) -> Iterator[Pair]:
    """Yields dependent accesses that fission or fusion would reverse.

    The first is in the first `length` statements of a loop, in a later iteration; the second is in
    the other statements, in an earlier one.
    """
    head, tail = loop.body[:length], loop.body[length:]
    sides = tree.accesses(head), tree.accesses(tail)
    sums = accumulated([*sides[0], *sides[1]])

    def is_apart(memory: Memory) -> bool:
        if memory in sums:
            return True
        own = is_local(tree, memory) and first_uninitialised_read(tree, memory, head) is None
        return own and is_private(tree, memory, tail, loop)

    def meets(one: Access, other: Access) -> bool:
        return meets_later(tree, other, one, loop)

    return conflicts(*sides, meets, is_apart)


def accumulated(accesses: Sequence[Access]) -> set[Memory]:
    """Returns the arrays and scalars that are only accumulated to, by one reorderable function."""
    orders: dict[Memory, set[str]] = {}
    for access in accesses:
        orders.setdefault(access.memory, set()).add(access.mention.order)
    return {memory for memory, order in orders.items() if len(order) == 1 and "" not in order}


# ---- 2. privatisation


def read_after(
    tree: LoopTree, memory: Memory, statement: KernelStatement
) -> KernelStatement | None:
    """Returns a statement that may read the value of local memory after another statement, so that
    the memory is live there; None if there is none."""
    for outer in reversed((None, *tree.ancestors[statement])):
        block = tree.block_of(statement)
        index = next(i for i, s in enumerate(block) if s is statement)
        read = first_uninitialised_read(tree, memory, block[index + 1 :])
        if read is None and isinstance(outer, For | While):  # its next iteration
            read = first_uninitialised_read(tree, memory, block)
        if read is not None or outer is None:
            return read
        statement = outer
    return None


def is_private(tree: LoopTree, memory: Memory, block: Sequence[KernelStatement], loop: For) -> bool:
    """Whether a local array or scalar is private to each execution of a block in a loop: written
    before it is read, and dead after the loop."""
    if not is_local(tree, memory) or first_uninitialised_read(tree, memory, block):
        return False
    return read_after(tree, memory, loop) is None


def is_local(tree: LoopTree, memory: Memory) -> bool:
    """Whether memory is local to the kernel: a scalar or a local array."""
    return isinstance(memory, Local) or memory.name in tree.arrays

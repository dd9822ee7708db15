"""The two questions of legality.

1. Do two accesses touch the same element only within one iteration of a loop (`meets_later`)?
2. Does each iteration of a loop write a memory before it reads it, and does nothing read the memory
   after the loop (`reads_of_other_iterations`)?

Both are answered for all sizes. An unknown index may be any index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Var
from structir.ir.kernel import Break, For, KernelStatement, Local, While
from structir.loops.accesses import Access
from structir.loops.bounds import extremes
from structir.loops.initialisation import first_uninitialised_read, has_jump
from structir.loops.loop_tree import LoopTree
from structir.loops.refusal import ScheduleError, refusal

Memory = Var | Local
Pair = tuple[Access, Access]


# ---- 1. accesses of the same element


def meets_later(
    tree: LoopTree, first: Access, second: Access, loop: For, free: Sequence[For] = ()
) -> bool:
    """Whether the second access may touch, in a later iteration of a loop, an element that the
    first one touches.

    The variables of loops inside `loop`, and of the `free` ones around it, may differ between both.
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
        if _moves_apart(ends[0], ends[1], symbol, step):
            return False
        if _is_disjoint(tree, ends[0], ends[1], loop):
            return False
    return True


Ends = tuple[list[Dim], list[Dim]]  # lower bounds and upper bounds (inclusive); each of them holds


def _varying(access: Access, loop: For, free: Sequence[For]) -> list[For]:
    depth = access.loops.index(loop)
    return [outer for outer in access.loops if outer in free or outer in access.loops[depth + 1 :]]


def _index_pairs(
    tree: LoopTree, first: Access, second: Access
) -> Iterator[tuple[Dim | None, Dim | None]]:
    """Yields indices that must be equal where two accesses touch the same element."""
    one, other = first.mention.element, second.mention.element
    assert one is not None and other is not None
    if one.flat == other.flat:
        yield from zip(tree.indices(one), tree.indices(other), strict=True)
    else:
        yield tree.flat_index(one), tree.flat_index(other)


def _ends(tree: LoopTree, index: Dim, varying: Sequence[For]) -> Ends:
    return extremes(tree, index, varying, False), extremes(tree, index, varying, True)


def _moves_apart(first: Ends, second: Ends, symbol: Sym, step: int) -> bool:
    """Whether the indices of the second access in all later iterations exceed those of the first,
    or all fall short of them."""
    return any(_exceeds(low, high, symbol, step) for high in first[1] for low in second[0]) or any(
        _exceeds(-high, -low, symbol, step) for low in first[0] for high in second[1]
    )


def _exceeds(low: Dim, high: Dim, symbol: Sym, step: int) -> bool:
    """Whether `low`, one or more steps of the loop later, is greater than `high`."""
    one, other = dims.linear(high, symbol), dims.linear(low, symbol)
    if one is None or other is None or one[0] != other[0]:
        return False
    advance = one[0] * step
    return bool(dims.at_least(advance, 0) and dims.at_least(advance + other[1] - one[1], 1))


def _is_disjoint(tree: LoopTree, first: Ends, second: Ends, loop: For) -> bool:
    """Whether two accesses never touch the same element."""
    sides = (first, second)
    lows = [[e for d in s[0] for e in extremes(tree, d, [loop], False)] for s in sides]
    highs = [[e for d in s[1] for e in extremes(tree, d, [loop], True)] for s in sides]
    return any(
        dims.at_least(low, high + 1)
        for a, b in ((0, 1), (1, 0))
        for low in lows[a]
        for high in highs[b]
    )


def conflicts(
    first: Sequence[Access],
    second: Sequence[Access],
    meets: Callable[[Access, Access], bool],
    ignored: Callable[[Memory], bool] = lambda memory: False,
) -> Iterator[Pair]:
    """Yields pairs of accesses of the same memory, one of which writes, that may meet."""
    by_memory: dict[Memory, list[Access]] = {}
    for access in second:
        by_memory.setdefault(access.memory, []).append(access)
    written = {a.memory for side in (first, second) for a in side if a.is_write}
    for one in first:
        if one.memory not in written or ignored(one.memory):
            continue
        for other in by_memory.get(one.memory, ()):
            if (one.is_write or other.is_write) and meets(one, other):
                yield one, other


def accumulated(accesses: Sequence[Access]) -> set[Memory]:
    """Returns the memory that accesses only accumulate to, by one function, in any order."""
    orders: dict[Memory, set[str]] = {}
    for access in accesses:
        orders.setdefault(access.memory, set()).add(access.mention.order)
    return {memory for memory, order in orders.items() if len(order) == 1 and "" not in order}


# ---- 2. memory of one iteration


def reads_of_other_iterations(tree: LoopTree, memory: Memory, loop: For) -> KernelStatement | None:
    """Returns a statement that reads, from a memory of the kernel's own, what another iteration of
    a loop wrote, or that reads it after the loop; None if there is none."""
    inside = first_uninitialised_read(tree, memory, loop.body)
    return inside or read_after(tree, memory, loop)


def read_after(
    tree: LoopTree, memory: Memory, statement: KernelStatement
) -> KernelStatement | None:
    """Returns a statement that may read, from a memory of the kernel's own, what it holds after
    another statement; None if there is none."""
    for outer in reversed((None, *tree.ancestors[statement])):
        block = tree.block_of(statement)
        index = next(i for i, s in enumerate(block) if s is statement)
        read = first_uninitialised_read(tree, memory, block[index + 1 :])
        if read is None and isinstance(outer, For | While):
            read = first_uninitialised_read(tree, memory, block)
        if read is not None or outer is None:
            return read
        statement = outer
    return None


def is_local(tree: LoopTree, memory: Memory) -> bool:
    """Whether a memory is the kernel's own: a scalar, or a local array."""
    return isinstance(memory, Local) or memory.name in tree.arrays


# ---- both questions, as refusals


def require_order_free(
    tree: LoopTree, loop: For, action: str, *, sums: bool = True, free: Sequence[For] = ()
) -> None:
    """Refuses where the order of the iterations of a loop matters.

    Memory that each iteration writes before it reads does not count, nor, with `sums`, do
    accumulations whose terms may come in any order. See `meets_later` for `free`.
    """
    accesses = tree.accesses(loop.body)
    ordered = accumulated(accesses) if sums else set()

    def meets(one: Access, other: Access) -> bool:
        return meets_later(tree, one, other, loop, free)

    private: dict[Memory, bool] = {}

    def ignored(memory: Memory) -> bool:
        if memory in ordered:
            return True
        if memory not in private:
            private[memory] = is_private(tree, memory, loop)
        return private[memory]

    for one, other in conflicts(accesses, accesses, meets, ignored):
        raise dependence(tree, loop, one, other, action)


def is_private(tree: LoopTree, memory: Memory, loop: For) -> bool:
    """Whether each iteration of a loop has a memory to itself."""
    return is_local(tree, memory) and reads_of_other_iterations(tree, memory, loop) is None


def dependence(tree: LoopTree, loop: For, one: Access, other: Access, action: str) -> ScheduleError:
    """Returns the refusal for two accesses that iterations of a loop share."""
    name, variable = one.memory.name, loop.variable.name
    kind = "the same element of" if isinstance(one.memory, Var) else "the same scalar"
    labels = ["writes it" if access.is_write else "reads it" for access in (one, other)]
    places = [(labels[0], one.statement)]
    if other.statement is not one.statement or labels[1] != labels[0]:
        places.append((labels[1], other.statement))
    message = (
        f"cannot {action}: expected every iteration of `{variable}` to access its own memory, "
        f"found iterations that access {kind} `{name}`"
    )
    return refusal("E1116", message, *places, help=_remedy(tree, loop, one))


def _remedy(tree: LoopTree, loop: For, access: Access) -> str:
    name, variable = access.memory.name, loop.variable.name
    if not is_local(tree, access.memory):
        return f"leave `{variable}` as it is, and schedule a loop inside or around it"
    if first_uninitialised_read(tree, access.memory, loop.body) is None:
        return f"expand `{name}` over `{variable}` first: `expand({name!r}, {variable!r})`"
    return (
        f"if `{name}` is a sum, mark it first: `reassociate({variable!r})`; "
        f"else initialise it at the beginning of each iteration of `{variable}`"
    )


def require_no_jump(loop: For, action: str) -> None:
    """Refuses a loop with a `break` or `continue` of its own."""
    _refuse_jump(loop, action, has_jump(loop.body))


def require_no_break(loop: For, action: str) -> None:
    """Refuses a loop with a `break` of its own."""
    _refuse_jump(loop, action, has_jump(loop.body, (Break,)))


def _refuse_jump(loop: For, action: str, jump: KernelStatement | None) -> None:
    if jump is not None:
        word = str(jump).strip()
        message = f"cannot {action} `{loop.variable.name}`: found a `{word}` in its body"
        help = "write the condition as an `if` around the rest of the iteration"
        raise refusal("E1117", message, ("loop", loop), ("leaves it", jump), help=help)


def require_fixed_bounds(tree: LoopTree, loop: For, action: str) -> None:
    """Refuses a loop that writes what its bounds, or those of a loop inside, are computed from."""
    nest = [loop, *[s for s in loop.body if isinstance(s, For)]]
    reads = {mention.memory: each for each in nest for mention in tree.mentions(each)}
    for access in tree.accesses(loop.body):
        if access.is_write and access.memory in reads:
            name, reader = access.memory.name, reads[access.memory]
            message = (
                f"cannot {action}: expected fixed bounds, found that the loop changes `{name}`"
            )
            help = f"copy `{name}` to another scalar before the loop"
            places = (("its bounds read it", reader), ("changes it", access.statement))
            raise refusal("E1117", message, *places, help=help)

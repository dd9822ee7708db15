"""Prefetches what a later iteration of a loop reads."""

from __future__ import annotations

from collections.abc import Iterator

from structir.ir.kernel import (
    VECTOR,
    Apply,
    Branch,
    Element,
    For,
    Kernel,
    KernelStatement,
    Literal,
    Local,
    Prefetch,
    Scalar,
)
from structir.ir.node import replace
from structir.loops.schedule.accesses import Access, expressions, is_same
from structir.loops.schedule.edits import calculate, exchange, integer, with_values
from structir.loops.schedule.loop_tree import LoopTree, loop_tree
from structir.loops.schedule.nests import refuse_jumps
from structir.loops.schedule.primitive import positive, primitive
from structir.loops.schedule.refusal import refusal


@primitive
def prefetch(kernel: Kernel, array: str, loop: str, ahead: int = 4) -> Kernel:
    """Prefetches the elements of an array that a loop reads `ahead` iterations later.

    Each iteration begins with the prefetches. Of an inner loop they cover the first iteration: one
    cache line of a row; split the inner loop and prefetch in its outer part to cover more. Where an
    index is read from an array, the prefetch is skipped past the last iteration. Helps with gathers
    and long strides, which the prefetcher of the CPU does not predict.
    """
    tree = loop_tree(kernel)
    old = tree.loop(loop)
    positive(ahead, "ahead")
    refuse_jumps(old, also_continue=True)
    if old.kind == VECTOR:
        raise refusal(
            "E1116",
            f"expected a loop of scalar iterations, found the vector loop `{loop}`",
            old,
            help=f'split off vectors, `split("{loop}", 16)`, and prefetch in the outer loop',
        )
    memory = next((param for param in kernel.params if param.name == array), None)
    reads: list[Access] = []
    for access in tree.accesses(old.body):
        is_read = not access.is_write and access.mention.element is not None
        is_of_array = is_read and access.memory is memory
        if is_of_array and not any(_have_same_place(access, other) for other in reads):
            reads.append(access)
    if not reads:
        raise refusal(
            "E1116",
            f"expected a parameter that `{loop}` reads by index, found `{array}`",
            old,
            help="name a parameter whose elements a statement of the loop reads",
        )
    prefetches = [_prefetch(tree, old, access, ahead) for access in reads]
    return exchange(kernel, old, replace(old, body=(*prefetches, *old.body)))


def _have_same_place(first: Access, second: Access) -> bool:
    places = [(a.mention.element, _inner_loops(a)) for a in (first, second)]
    (one, inner), (other, other_inner) = places
    return is_same(one, other) and inner == other_inner


def _inner_loops(access: Access) -> list[str]:
    return [loop.variable.name for loop in access.loops]


def _prefetch(tree: LoopTree, loop: For, access: Access, ahead: int) -> KernelStatement:
    """Returns the prefetch of an element, for the iteration `ahead` of the current one."""
    element = access.mention.element
    assert element is not None
    later = calculate("add", loop.variable, integer(ahead * loop.step))
    values: dict[Local, Scalar] = {loop.variable: later}
    runs = [_runs(loop, later, loop.stop)]  # whether the iteration and the read exist
    for inner in access.loops[access.loops.index(loop) + 1 :]:
        start, stop = with_values(inner.start, values), with_values(inner.stop, values)
        values[inner.variable] = start
        if not _surely_runs(inner, start, stop):
            runs.append(_runs(inner, start, stop))
    _require_known(tree, loop, access, element)
    hint: Prefetch = with_values(Prefetch(element.array, element.indices, element.flat), values)
    statement: KernelStatement = hint
    if any(isinstance(part, Element) for index in hint.indices for part in expressions(index)):
        for test in reversed(runs):
            statement = Branch(test, (statement,))
    return statement


def _runs(loop: For, start: Scalar, stop: Scalar) -> Apply:
    """Returns whether a loop has the iteration `start`."""
    return Apply("lt", (start, stop) if loop.step > 0 else (stop, start), "bool")


def _surely_runs(loop: For, start: Scalar, stop: Scalar) -> bool:
    if isinstance(start, Literal) and isinstance(stop, Literal):
        return len(range(int(start.value), int(stop.value), loop.step)) > 0
    return False


def _require_known(tree: LoopTree, loop: For, access: Access, element: Element) -> None:
    """Raises ScheduleError unless the index of a read is known where the iteration begins."""
    written = {a.memory for a in tree.accesses(loop.body) if a.is_write}
    for part in _needed(loop, access, element):
        memory = part.array if isinstance(part, Element) else part
        if memory in written:
            raise refusal(
                "E1116",
                f"expected an index that is known before the iteration, found `{element}` at "
                f"`{memory.name}`, which the loop assigns",
                ("read", access.statement),
                ("loop", loop),
                help=f"read the index from an array that `{loop.variable.name}` does not write",
            )
    reads_index = any(isinstance(part, Element) for part in _needed(loop, access, element))
    inside = tree.ancestors[access.statement]
    inside = inside[inside.index(loop) + 1 :]
    condition = next((s for s in inside if not isinstance(s, For)), None)
    if reads_index and condition is not None:
        raise refusal(
            "E1116",
            f"expected a read in every iteration, found `{element}` under a condition: its index "
            "may be out of range where the condition does not hold",
            ("read", access.statement),
            ("condition", condition),
            help="prefetch an array whose index is not read from an array",
        )


def _needed(loop: For, access: Access, element: Element) -> Iterator[Element | Local]:
    """Yields the scalars and elements that the index of a read depends on, without the variables of
    the loops around it."""
    inner = access.loops[access.loops.index(loop) + 1 :]
    bounds = [bound for each in inner for bound in (each.start, each.stop)]
    variables = {each.variable for each in access.loops}
    for scalar in (*element.indices, *bounds, loop.stop):
        for part in expressions(scalar):
            if isinstance(part, Element) or (isinstance(part, Local) and part not in variables):
                yield part


prefetch.example(
    """
@I.kernel
def gather(
    x: R.Tensor(("n", 16), "float32"),
    index: R.Tensor(("m",), "int64"),
    out: R.Tensor(("m", 16), "float32"),
):
    m = T.int64()
    for i in range(m):
        for j in range(16):
            out[i, j] = x[index[i], j]
""",
    "x",
    "i",
    ahead=8,
)

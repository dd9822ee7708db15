"""Definite initialisation: whether a kernel is proved to write every element of a result before it
reads any."""

from __future__ import annotations

from collections.abc import Sequence

from structir.backend.loops.index_proofs import IndexRanges
from structir.ir.expr import Var
from structir.ir.kernel import (
    Assign,
    Branch,
    Break,
    Continue,
    Element,
    For,
    Kernel,
    KernelStatement,
    Literal,
    Local,
    nodes_of,
)


def surely_filled(kernel: Kernel, result: Var, ranges: IndexRanges) -> bool:
    """Whether loops over all axes of a result, with nothing else around, write each element, and
    nothing reads it."""
    elements = [n for n in nodes_of(kernel) if isinstance(n, Element) and n.array is result]
    writes = [n for n in nodes_of(kernel) if isinstance(n, Assign) and n.target in elements]
    if any(element.flat for element in elements):
        return False
    if len(elements) > len(writes) or any(write.symbol for write in writes):
        return False
    return _filled(kernel.body, (), result, ranges)


def _filled(
    statements: Sequence[KernelStatement], loops: tuple[For, ...], result: Var, ranges: IndexRanges
) -> bool:
    """Whether statements inside these loops write the result at every index."""
    if len(loops) == len(ranges.shapes[result]):
        return _writes(statements, [loop.variable for loop in loops], loops, result, ranges)
    return any(
        _filled(s.body, (*loops, s), result, ranges)
        for s in statements
        if isinstance(s, For) and not _jumps(s.body)
    )


def _writes(
    statements: Sequence[KernelStatement],
    variables: list[Local],
    loops: tuple[For, ...],
    result: Var,
    ranges: IndexRanges,
) -> bool:
    return any(
        _covers(s.target, loops, ranges)
        if isinstance(s, Assign) and isinstance(s.target, Element) and s.target.array is result
        else isinstance(s, Branch)
        and all(_writes(side, variables, loops, result, ranges) for side in (s.then, s.otherwise))
        for s in statements
    )


def _covers(target: Element, loops: tuple[For, ...], ranges: IndexRanges) -> bool:
    """Whether the indices are the variables of the loops, each over its whole axis."""
    over = {loop.variable: loop for loop in loops}
    if len(over) < len(loops) or set(target.indices) != over.keys():
        return False
    shape = ranges.shapes[target.array]
    return all(
        _whole(over[index], size, ranges)
        for index, size in zip(target.indices, shape, strict=True)
        if isinstance(index, Local)
    )


def _whole(loop: For, size: object, ranges: IndexRanges) -> bool:
    from_start = isinstance(loop.start, Literal) and loop.start.value == 0
    return from_start and loop.step == 1 and ranges.value(loop.stop) == size


def _jumps(statements: Sequence[KernelStatement]) -> bool:
    """Whether a loop with this body may end early or skip an iteration."""
    return any(
        isinstance(s, Break | Continue)
        or (isinstance(s, Branch) and (_jumps(s.then) or _jumps(s.otherwise)))
        for s in statements
    )

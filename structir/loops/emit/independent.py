"""Dependence analysis of innermost loops, so that short ones are emitted as vectors: LLVM would
unroll them first."""

from __future__ import annotations

from collections.abc import Iterator

from structir.ir.expr import Var
from structir.ir.kernel import Apply, Assign, Element, For, Local, Scalar, nodes_of
from structir.loops.emit.emitter import Emitter
from structir.loops.schedule.accesses import is_same

FEWEST, MOST = 4, 64  # iterations of loops that are worth it


def is_short_and_independent(emitter: Emitter, loop: For, iterations: int) -> bool:
    """Whether a loop has few iterations, each of which writes its own elements and reads none that
    another one writes."""
    if not FEWEST <= iterations <= MOST or not emitter.is_generated:
        return False
    assigns = [s for s in loop.body if isinstance(s, Assign)]
    targets = [s.target for s in assigns if isinstance(s.target, Element)]
    names = [s.target for s in assigns if isinstance(s.target, Local)]
    if len(assigns) < len(loop.body) or not targets or not emitter.ranges.once >= {*names}:
        return False
    written: dict[Var, Element] = {target.array: target for target in targets}
    changing = {*names, loop.variable}
    if len(written) < len(targets) or not all(
        _is_next(t, loop.variable, changing) for t in targets
    ):
        return False
    return all(
        is_same(element, written[element.array])
        for assign in assigns
        for element in _elements(assign)
        if element.array in written
    )


def _elements(assign: Assign) -> Iterator[Element]:
    return (node for node in nodes_of(assign) if isinstance(node, Element))


def _is_next(target: Element, variable: Local, changing: set[Local]) -> bool:
    """Whether each iteration writes the element after that of the one before."""
    if not target.indices:  # every iteration writes the one element
        return False
    *others, last = target.indices
    return _steps(last, variable, changing) and all(_stays(s, changing) for s in others)


def _steps(index: Scalar, variable: Local, changing: set[Local]) -> bool:
    match index:
        case Apply("add", (one, other)):
            pairs = ((one, other), (other, one))
            return any(_steps(a, variable, changing) and _stays(b, changing) for a, b in pairs)
        case Apply("sub", (one, other)):
            return _steps(one, variable, changing) and _stays(other, changing)
    return index is variable


def _stays(index: Scalar, changing: set[Local]) -> bool:
    return not any(isinstance(n, Element) or n in changing for n in nodes_of(index))

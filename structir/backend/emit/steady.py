"""Elements that a loop comes to in even steps, whose indices can be checked before it."""

from __future__ import annotations

from collections.abc import Iterator

from structir.ir.kernel import (
    Apply,
    Assign,
    Element,
    For,
    Literal,
    Local,
    Scalar,
    Size,
)
from structir.ir.node import replace

LAZY = frozenset({"and", "or", "select"})  # which need not come to all of their operands


def steady_elements(loop: For) -> list[Element]:
    """The elements by flat indices that every round comes to, and whose indices are a constant
    number of steps further in each round."""
    if loop.step != 1 or not all(isinstance(s, Assign) for s in loop.body):
        return []
    assigns = [s for s in loop.body if isinstance(s, Assign)]
    changing = {s.target for s in assigns if isinstance(s.target, Local)}
    met = [part for s in assigns for side in (s.value, s.target) for part in _met(side)]
    return [e for e in met if e.flat and _degree(e.indices[0], loop.variable, changing) is not None]


def _met(scalar: Scalar) -> Iterator[Element]:
    """The elements that an expression surely comes to."""
    if isinstance(scalar, Element):
        yield scalar
        for index in scalar.indices:
            yield from _met(index)
    elif isinstance(scalar, Apply):
        for arg in scalar.args[:1] if scalar.fn in LAZY else scalar.args:
            yield from _met(arg)


def _degree(scalar: Scalar, variable: Local, changing: set[Local]) -> int | None:
    """0 for what stays the same in all rounds, 1 for what steps evenly; None for all else."""
    if isinstance(scalar, Literal | Size):
        return 0
    if isinstance(scalar, Local):
        return 1 if scalar == variable else None if scalar in changing else 0
    if not isinstance(scalar, Apply) or scalar.dtype != "int64":
        return None
    degrees = [_degree(arg, variable, changing) for arg in scalar.args]
    known = [degree for degree in degrees if degree is not None]
    if len(known) < len(degrees):
        return None
    total = max(known) if scalar.fn in ("add", "sub", "neg") else sum(known)
    even = scalar.fn in ("add", "sub", "neg", "mul") or total == 0
    return total if even and total <= 1 else None


def with_local(scalar: Scalar, local: Local, value: Scalar) -> Scalar:
    """An expression over a value in the place of a name."""
    if isinstance(scalar, Local):
        return value if scalar == local else scalar
    if isinstance(scalar, Apply):
        return replace(scalar, args=tuple([with_local(a, local, value) for a in scalar.args]))
    return scalar

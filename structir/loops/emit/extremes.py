"""Loops that compute maxima or minima, which are NaN where an element is: the largest number and
the presence of NaN are computed apart.

Then one instruction each suffices for a vector, and for each step across its lanes. A maximum that
is NaN where an operand is takes three.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from structir.ir.dtype import is_float
from structir.ir.kernel import (
    Apply,
    Assign,
    For,
    KernelStatement,
    Literal,
    Local,
    accumulated,
    nodes_of,
)
from structir.ir.node import replace
from structir.projections.monoid import MONOIDS

NUMBERS = {"maximum": "largest", "minimum": "smallest"}  # of numbers that are not NaN
MONOID_OF = {"maximum": "max", "minimum": "min"}


@attrs.frozen(eq=False)
class Extreme:
    """A maximum or minimum that a loop computes: its number, and whether there is NaN."""

    total: Local
    value: Apply
    number: Local
    has_nan: Local

    @property
    def term(self) -> Local:
        """The value of an iteration."""
        return Local(f"{self.total.name}_term", self.total.dtype)


@attrs.frozen(eq=False)
class ApartLoop:
    """A loop that computes extremes apart."""

    loop: For
    extremes: tuple[Extreme, ...]

    @property
    def variables(self) -> set[Local]:
        """The variables that the loop assigns, besides those that it had."""
        return {v for e in self.extremes for v in (e.number, e.has_nan)}

    def before(self) -> Iterator[KernelStatement]:
        """Yields the statements before the loop."""
        for extreme in self.extremes:
            dtype = extreme.total.dtype
            identity = float(MONOIDS[MONOID_OF[extreme.value.fn]].identity(dtype))
            yield Assign(extreme.number, Literal(identity, dtype))
            yield Assign(extreme.has_nan, Literal(False, "bool"))

    def after(self) -> Iterator[KernelStatement]:
        """Yields the statements behind the loop."""
        for extreme in self.extremes:
            total, value = extreme.total, extreme.value
            nan = Literal(float("nan"), total.dtype)
            number = Apply("select", (extreme.has_nan, nan, extreme.number), total.dtype)
            yield Assign(total, replace(value, args=(total, number)))


def extremes_apart(loop: For) -> ApartLoop | None:
    """Returns an innermost loop whose maxima and minima are computed apart; None for others."""
    if not all([isinstance(s, Assign) for s in loop.body]):
        return None
    extremes, body = list[Extreme](), list[KernelStatement]()
    for statement in loop.body:
        extreme = _extreme(statement, loop)
        if extreme is None:
            body.append(statement)
            continue
        extremes.append(extreme)
        body += _apart(extreme)
    return ApartLoop(replace(loop, body=tuple(body)), tuple(extremes)) if extremes else None


def _extreme(statement: KernelStatement, loop: For) -> Extreme | None:
    """Returns the extreme that a statement computes; None if its value is also used otherwise."""
    if not isinstance(statement, Assign) or accumulated(statement) not in NUMBERS:
        return None
    total, value = statement.target, statement.value
    assert isinstance(total, Local) and isinstance(value, Apply)
    uses = [node for s in loop.body for node in nodes_of(s) if node is total]
    if not is_float(total.dtype) or len(uses) != 2:
        return None
    number = Local(f"{total.name}_number", total.dtype)
    return Extreme(total, value, number, Local(f"{total.name}_has_nan", "bool"))


def _apart(extreme: Extreme) -> Iterator[KernelStatement]:
    """Yields the statements of an iteration."""
    total, value, term = extreme.total, extreme.value, extreme.term
    yield Assign(term, value.args[1])
    number = Apply(NUMBERS[value.fn], (extreme.number, term), total.dtype)
    yield Assign(extreme.number, number)
    is_nan = Apply("ne", (term, term), "bool")
    yield Assign(extreme.has_nan, Apply("bitor", (extreme.has_nan, is_nan), "bool"))

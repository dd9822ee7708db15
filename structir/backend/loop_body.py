"""Bodies of loops that are one region: which of its operands are what a step is given."""

from __future__ import annotations

from typing import Any

import attrs

from structir.backend.compiled_region import CompiledRegion
from structir.backend.program import RegionCall
from structir.ir.expr import (
    Constant,
    Expr,
    Function,
    MatchCast,
    Tuple,
    TupleGetItem,
    Var,
)


@attrs.frozen
class Given:
    """A parameter of the body, by its number."""

    number: int


@attrs.frozen
class Made:
    """A result of the region, by its number."""

    number: int


@attrs.frozen
class Around:
    """A variable that the body sees around it."""

    var: Var


@attrs.frozen(eq=False)
class Known:
    """A constant."""

    data: Any


Source = Given | Made | Around | Known


@attrs.frozen(eq=False)
class LoopBody:
    """A body whose work is one region: where its operands come from, and what its results are."""

    region: CompiledRegion
    inputs: tuple[Source, ...]
    results: tuple[Source, ...]


def loop_body(function: Function) -> LoopBody | None:
    """The body as one region; None where it is more than that."""
    reading = _Reading({p: Given(k) for k, p in enumerate(function.params)})
    for binding in function.bindings():
        value: Any = binding.value
        if not reading.takes(binding.var, value, isinstance(binding, MatchCast)):
            return None
    results = function.body.body
    if reading.call is None or not isinstance(results, Tuple):
        return None
    found = [reading.source(field) for field in results.fields]
    inputs = [reading.source(v) for v in reading.call.inputs]
    if any(source is None for source in (*inputs, *found)):
        return None
    return LoopBody(reading.call.region, tuple(inputs), tuple(found))  # type: ignore[arg-type]


class _Reading:
    """What the variables of a body are, binding by binding."""

    def __init__(self, known: dict[Var, Source]) -> None:
        self.known = known
        self.own: set[Var] = set(known)  # all else is around the body
        self.call: RegionCall | None = None
        self.whole: Var | None = None

    def takes(self, var: Var, value: Expr, checked: bool) -> bool:
        """Note what a binding makes of its variable; whether it can be said."""
        self.own.add(var)
        if isinstance(value, RegionCall):
            if self.call is not None:
                return False
            self.call, self.whole = value, var
            return True
        source = self.source(value)
        if source is not None:
            self.known[var] = source
        return source is not None and not (checked and isinstance(source, Known))

    def source(self, value: Expr) -> Source | None:
        """Where a value comes from."""
        if isinstance(value, Constant):
            return Known(value.data)
        if isinstance(value, TupleGetItem):
            return self._result(value)
        if not isinstance(value, Var):
            return None
        return self.known.get(value) if value in self.own else Around(value)

    def _result(self, value: TupleGetItem) -> Source | None:
        if self.call is None or value.tuple_value is not self.whole:
            return None
        number = self.call.results[value.index]
        if not isinstance(number, int):
            return None
        region = self.call.region
        buffer = region.boundary.results[number]
        if buffer in region.inputs:  # handed through as it is
            return self.source(self.call.inputs[region.inputs.index(buffer)])
        return Made(number)

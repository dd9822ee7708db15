"""Records what programs decide by values, and how far a run is from deciding otherwise.

A rewrite that is wrong in some cases only, or that drops a case, differs in its decisions, so that
a comparison of results should see each outcome: a negative margin, 0 and a positive one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
import numpy as np

from structir.ir.expr import Call
from structir.ir.module import IRModule
from structir.passes.manager.kernel_margins import called_kernel, kernel_margins
from structir.passes.manager.margins import Array, Margin, evaluated_margins, margins_of
from structir.passes.manager.value_numbers import value_numbers

Key = tuple[int, int]  # the value number of a call, and the margin among those of the call

MOST_STARTS = 6
FAR = 1e4  # from another outcome


@attrs.frozen
class Closest:
    """The element of a margin that is closest to another outcome, and the input of that run."""

    value: float
    index: int  # of the element in the flat margin
    count: int  # of elements
    sample: Any


@attrs.define(eq=False)
class DecisionRecord:
    """The outcomes of the decisions of some calls, over all runs that record here."""

    calls: dict[int, tuple[Call, int, tuple[Margin, ...]]]  # by id: the call, its value number
    seen: dict[Key, set[int]] = attrs.Factory(dict)
    closest: dict[Key, Closest] = attrs.Factory(dict)
    starts: dict[Key, list[Closest]] = attrs.Factory(dict)  # an element of each of the first runs
    latest: dict[Key, Array] = attrs.Factory(dict)  # flat margins
    single: dict[Key, dict[tuple[Any, ...], dict[int, tuple[float, Any]]]] = attrs.Factory(
        dict
    )  # the greatest margins of one element with their inputs, by sizes and sign
    sample: Any = None  # the input of the run that records

    def record(self, call: Call, args: list[Any]) -> None:
        """Records the outcomes of a call for the values of its arguments."""
        self.record_margins(call, evaluated_margins(call, self.calls[id(call)][2], args))

    def record_margins(self, call: Call, evaluated: Iterable[Array | None]) -> None:
        """Records the outcomes of a call by the values of its margins; None is unknown."""
        _, number, margins = self.calls[id(call)]
        for k, values in enumerate(evaluated):
            if values is not None and np.size(values):
                self._record((number, k), np.ravel(values), margins[k].outcomes)

    def _record(self, key: Key, values: Array, outcomes: tuple[int, ...]) -> None:
        self.latest[key] = values
        seen = self.seen.setdefault(key, set())
        starts = self.starts.setdefault(key, [])
        is_new = not starts or starts[-1].sample is not self.sample
        if len(starts) < MOST_STARTS and self.sample is not None and is_new:
            index = (7 * len(starts) + 1) % values.size
            known = [start.value for start in starts]
            if values[index] and np.isfinite(values[index]) and values[index] not in known:
                starts.append(Closest(float(values[index]), index, values.size, self.sample))
        if len(seen) == len(outcomes):
            return
        seen.update([sign for sign in outcomes if np.any(np.sign(values) == sign)])
        if values.size == 1 and self.sample is not None and np.isfinite(values[0]):
            self._record_single(key, float(values[0]))
        distance = np.abs(values)
        distance[~(distance > 0)] = np.inf
        index = int(np.argmin(distance))
        best = self.closest.get(key)
        if distance[index] < (np.inf if best is None else abs(best.value)):
            value = float(values[index])
            self.closest[key] = Closest(value, index, values.size, self.sample)

    def _record_single(self, key: Key, value: float) -> None:
        signs = self.single.setdefault(key, {}).setdefault(tuple(self.sample.sizes.items()), {})
        farthest, _ = signs.get(int(np.sign(value)), (-1.0, None))
        if farthest < abs(value) < FAR:
            signs[int(np.sign(value))] = abs(value), self.sample

    def outcomes(self) -> list[tuple[Key, int]]:
        """Returns the outcomes that make a difference."""
        keys = {
            (number, k): margin.outcomes
            for _, number, margins in self.calls.values()
            for k, margin in enumerate(margins)
        }
        return [(key, sign) for key, outcomes in keys.items() for sign in outcomes]

    def missing(self) -> list[tuple[Key, int]]:
        """Returns the outcomes that no run had."""
        return [(key, sign) for key, sign in self.outcomes() if sign not in self.seen.get(key, ())]


def changed_decisions(before: IRModule, after: IRModule, name: str) -> DecisionRecord:
    """Returns a record of the decisions that only one of two programs makes."""
    modules = before, after
    programs = [value_numbers(module, name) for module in modules]
    common = {number for _, number in programs[0]} & {number for _, number in programs[1]}
    calls: dict[int, tuple[Call, int, tuple[Margin, ...]]] = {}
    for module, program in zip(modules, programs, strict=True):
        for call, number in program:
            if number not in common and (margins := _margins(module, call)):
                calls[id(call)] = call, number, margins
    return DecisionRecord(calls)


def _margins(module: IRModule, call: Call) -> tuple[Margin, ...]:
    kernel = called_kernel(module, call)
    return margins_of(call) if kernel is None else kernel_margins(kernel)

"""Functions and loops that the host comes to, by what they are given: as plans of steps, where that
can be."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from structir.analysis.variables import free_vars
from structir.backend.compiled_region import dense
from structir.backend.plan import KEPT_BYTES, KEPT_SHAPES, recording
from structir.backend.step_plan import LEFT, StepPlan
from structir.backend.steps import OUTSIDE, Cell, NotPlannedError, Slot
from structir.backend.traced import Tracer, Whole
from structir.interpret.scope import Closure, Scope, Value
from structir.ir.expr import Function, Var
from structir.ops.loop import Steps

MOST_TRIES = 8  # of a function that no plan was found for, at different sizes
MOST_LEFT = 4  # runs that ended on the host, until a plan is given up


Reads = Callable[[Function], tuple[Var, ...]]  # what a function reads of the scope around it


class Given:
    """What a function or a loop is given: arrays in order, and a key of all else."""

    def __init__(self, reads: Reads, *values: Any) -> None:
        self.reads = reads
        self.arrays: list[Any] = []
        self.key = tuple([self._form(value) for value in values])

    def _form(self, value: Any) -> Any:
        if type(value) is np.ndarray:
            if not value.dtype.isnative or value.dtype.hasobject:
                raise NotPlannedError("an array of a kind of its own")
            self.arrays.append(value)
            return value.shape, value.dtype
        if isinstance(value, tuple):
            return tuple([self._form(item) for item in value])
        if isinstance(value, Closure):
            return self._closure(value)
        if isinstance(value, Whole):
            return value.function
        if value is None or isinstance(value, str | bool | int | float):
            return type(value), value
        raise NotPlannedError("a value of another kind")

    def _closure(self, value: Closure) -> Any:
        outer = value.outer
        if outer is None:
            return value.function
        around = tuple([self._form(outer.value(v)) for v in self.reads(value.function)])
        return value.function, around, tuple(outer.sizes.items())


class StandIns:
    """Values of which only the form is known, in place of those that are given."""

    def __init__(self, reads: Reads, tracer: Tracer) -> None:
        self.reads, self.tracer = reads, tracer
        self.slots: list[Slot] = []

    def of(self, value: Any) -> Any:
        """What stands for a value."""
        if type(value) is np.ndarray:
            self.slots.append(Slot(Cell(value.nbytes, OUTSIDE), value.shape, value.dtype))
            return self.slots[-1]
        if isinstance(value, tuple):
            return tuple([self.of(item) for item in value])
        if isinstance(value, Closure):
            return self._closure(value)
        return self.tracer.whole(value.function) if isinstance(value, Whole) else value

    def _closure(self, value: Closure) -> Closure:
        outer = value.outer
        if outer is not None:
            known = {v: self.of(outer.value(v)) for v in self.reads(value.function)}
            outer = Scope(known, dict(outer.sizes))
        return self.tracer.closure(value.function, outer, value.name)


@attrs.define(eq=False)
class Tried:
    """How a plan has done: None where there is none."""

    plan: StepPlan | None
    left: int = 0


@attrs.frozen(eq=False)
class StepPlans:
    """The plans of a program, by what their functions are given; the latest are kept."""

    tracer: Callable[[], Tracer]
    found: OrderedDict[Any, Tried] = attrs.Factory(OrderedDict)
    vain: dict[Function, int] = attrs.Factory(dict)  # how often there was no plan
    met: OrderedDict[Any, None] = attrs.Factory(OrderedDict)  # once
    read: dict[Function, tuple[Var, ...]] = attrs.Factory(dict)

    def reads(self, function: Function) -> tuple[Var, ...]:
        """What a function reads of the scope around it."""
        if function not in self.read:
            self.read[function] = tuple(free_vars(function))
        return self.read[function]

    def call(self, closure: Closure, args: tuple[Value, ...]) -> Value:
        """What a function gives; LEFT where the host must call it. It is planned when it is called
        a second time with values of the same forms."""

        def traced(tracer: Tracer, closure: Closure, *args: Value) -> Value:
            return tracer.run(tracer.entered(closure, args))

        return self._run(closure.function, traced, False, closure, *args)

    def of(self, function: Function) -> list[StepPlan]:
        """The plans of a function that serve, the latest first."""
        tried = [t for (loop, key), t in self.found.items() if not loop and key[0] is function]
        return [t.plan for t in reversed(tried) if t.plan is not None and t.left <= MOST_LEFT]

    def loop(self, function: Any, steps: Steps) -> tuple[tuple[Value, ...], list[Value]] | None:
        """What a loop gives; None where the host must make its steps."""

        def traced(tracer: Tracer, function: Any, *given: Any) -> Value:
            made = tracer.loop(function, Steps(*given))
            if made is None:
                raise NotPlannedError("no step")
            return made[0], tuple(made[1])

        trips = steps.trips
        if trips is not None and int(trips) <= 0:
            return None
        given = [trips, steps.going, steps.carried, steps.read, steps.captured]
        given[0] = trips if trips is None or type(trips) is int else np.asarray(trips, np.int64)
        found = self._run(function.function, traced, True, function, *given)
        return None if found is LEFT else (found[0], list(found[1]))

    def _run(self, function: Any, traced: Any, at_once: bool, *values: Any) -> Value:
        if recording.get() or self.vain.get(function, 0) >= MOST_TRIES:
            return LEFT
        try:
            given = Given(self.reads, *values)
        except NotPlannedError:
            return LEFT
        key = at_once, given.key
        tried = self.found.get(key)
        if tried is None:
            if not (at_once or self._met(key)):
                return LEFT
            tried = self.found[key] = Tried(self._planned(function, traced, values))
            while len(self.found) > 1 and self._are_too_many():
                self.found.popitem(last=False)
        if tried.plan is None or tried.left > MOST_LEFT:
            return LEFT
        value = tried.plan.run([dense(a, a.dtype) for a in given.arrays])
        tried.left += value is LEFT
        return value

    def _are_too_many(self) -> bool:
        plans = [tried.plan for tried in self.found.values() if tried.plan is not None]
        return len(self.found) > KEPT_SHAPES or sum(p.bytes for p in plans) > KEPT_BYTES

    def _met(self, key: Any) -> bool:
        """Whether a key was met before."""
        if key in self.met:
            return True
        self.met[key] = None
        while len(self.met) > KEPT_SHAPES:
            self.met.popitem(last=False)
        return False

    def _planned(self, function: Any, traced: Any, values: tuple[Any, ...]) -> StepPlan | None:
        """The plan for values of some forms; None where there is none."""
        tracer = self.tracer()
        stand_ins = StandIns(self.reads, tracer)
        block = tracer.blocks[-1]
        try:
            value = traced(tracer, *[stand_ins.of(value) for value in values])
            return StepPlan(block, stand_ins.slots, tracer.growing, value)
        except Exception:  # whatever it is, the host says it where it comes to that
            self.vain[function] = self.vain.get(function, 0) + 1
            return None

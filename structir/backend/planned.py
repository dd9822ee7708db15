"""Caches step plans of host functions and loops, by the shapes and dtypes of their arguments."""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from structir.analysis.variables import free_vars
from structir.backend.compiled_region import dense
from structir.backend.plan import MAX_CACHED_BYTES, MAX_CACHED_PLANS, recording
from structir.backend.step_plan import LEFT, StepPlan
from structir.backend.steps import (
    FALLBACK_ERRORS,
    OUTSIDE,
    MemoryCell,
    NotPlannedError,
    Slot,
    reason_of,
)
from structir.backend.traced import EndlessError, PlanTracer, RegionFunction
from structir.interpret.out_of_memory import within_memory
from structir.interpret.scope import Activation, Closure, Value
from structir.ir.expr import Function, Var
from structir.ops.loop import LoopSpec

MAX_FAILURES = 8  # attempts to plan a function that failed
MAX_FALLBACKS = 4  # runs of a plan that fell back to the host
MAX_REASONS = 32  # the latest fallbacks that are recorded

SHORT_LOOP_STEPS = 16  # a loop with at most this many is not planned at its first call
Traced = Callable[..., Value]  # traces a call or a loop
Reads = Callable[[Function], tuple[Var, ...]]  # returns the captured variables


class PlannedArguments:
    """The arguments of a function or a loop: arrays in order, and a key of everything else."""

    def __init__(self, reads: Reads, *values: Any) -> None:
        self.reads = reads
        self.arrays: list[Any] = []
        self.key = tuple([self._form(value) for value in values])

    def _form(self, value: Any) -> Any:
        if type(value) is np.ndarray:
            if not value.dtype.isnative or value.dtype.hasobject:
                raise NotPlannedError("an argument that is not a plain array")
            self.arrays.append(value)
            return value.shape, value.dtype
        if isinstance(value, tuple):
            return tuple([self._form(item) for item in value])
        if isinstance(value, Closure):
            return self._closure(value)
        if isinstance(value, RegionFunction):
            return value.function
        if value is None or isinstance(value, str | bool | int | float):
            return type(value), value
        raise NotPlannedError("an argument other than an array, a number or a function")

    def _closure(self, value: Closure) -> Any:
        outer = value.outer
        if outer is None:
            return value.function
        captured = tuple([self._form(outer.value(v)) for v in self.reads(value.function)])
        return value.function, captured, tuple(outer.sizes.items())


class Placeholders:
    """Creates placeholders for arrays of known shape and dtype."""

    def __init__(self, reads: Reads, tracer: PlanTracer) -> None:
        self.reads, self.tracer = reads, tracer
        self.slots: list[Slot] = []

    def of(self, value: Any) -> Any:
        """Returns the placeholder of a value."""
        if type(value) is np.ndarray:
            self.slots.append(Slot(MemoryCell(value.nbytes, OUTSIDE), value.shape, value.dtype))
            return self.slots[-1]
        if isinstance(value, tuple):
            return tuple([self.of(item) for item in value])
        if isinstance(value, Closure):
            return self._closure(value)
        return (
            self.tracer.region_function(value.function)
            if isinstance(value, RegionFunction)
            else value
        )

    def _closure(self, value: Closure) -> Closure:
        outer = value.outer
        if outer is not None:
            captured = {v: self.of(outer.value(v)) for v in self.reads(value.function)}
            outer = Activation(captured, dict(outer.sizes))
        return self.tracer.closure(value.function, outer, value.name)


@attrs.define(eq=False)
class PlanRecord:
    """A plan and the number of its fallbacks; `plan` is None after a failed attempt."""

    plan: StepPlan | None
    fallbacks: int = 0

    @property
    def is_usable(self) -> bool:
        """Whether there is a plan, and it does not fall back to the host repeatedly."""
        return self.plan is not None and self.fallbacks <= MAX_FALLBACKS


@attrs.define(eq=False)
class Plans:
    """The plans of one function, or of the loops over it, by arguments; an LRU cache."""

    entries: OrderedDict[Any, PlanRecord] = attrs.Factory(OrderedDict)
    seen: OrderedDict[Any, None] = attrs.Factory(
        OrderedDict
    )  # keys that occurred once, without a plan
    failures: int = 0  # number of failed attempts
    lock: threading.Lock = attrs.Factory(threading.Lock)

    def latest(self) -> list[StepPlan]:
        """Returns the usable plans, the latest first."""
        with self.lock:
            return [t.plan for t in reversed(self.entries.values()) if t.plan and t.is_usable]

    def was_seen(self, key: Any) -> bool:
        """Whether a key occurred before."""
        with self.lock:
            if key in self.seen:
                return True
            self.seen[key] = None
            if len(self.seen) > MAX_CACHED_PLANS:
                self.seen.popitem(last=False)
            return False

    def put(self, key: Any, record: PlanRecord) -> PlanRecord:
        """Caches a plan, and evicts the oldest."""
        with self.lock:
            self.entries[key] = record
            while len(self.entries) > 1 and self._are_too_many():
                self.entries.popitem(last=False)
            return record

    def _are_too_many(self) -> bool:
        plans = [record.plan for record in self.entries.values() if record.plan is not None]
        return (
            len(self.entries) > MAX_CACHED_PLANS or sum(p.bytes for p in plans) > MAX_CACHED_BYTES
        )


@attrs.frozen(eq=False)
class StepPlans:
    """The plans of a program."""

    tracer: Callable[[], PlanTracer]
    plans: defaultdict[Any, Plans] = attrs.Factory(lambda: defaultdict(Plans))
    read: dict[Function, tuple[Var, ...]] = attrs.Factory(dict)
    fallbacks: dict[str, None] = attrs.Factory(dict)  # fallbacks to the host, with reasons

    def reads(self, function: Function) -> tuple[Var, ...]:
        """Returns the variables of the enclosing scope that a function uses."""
        if function not in self.read:
            self.read[function] = tuple(free_vars(function))
        return self.read[function]

    def of(self, function: Function) -> list[StepPlan]:
        """Returns the usable plans of a function, the latest first."""
        return self.plans[_trace_call, function].latest()

    def call(self, closure: Closure, args: tuple[Value, ...]) -> Value:
        """Calls a function by its plan; LEFT if the host must call it.

        A plan is made at the second call with the same shapes and dtypes.
        """
        return self._run(
            self.plans[_trace_call, closure.function], _trace_call, False, closure, *args
        )

    def loop(self, function: Any, steps: LoopSpec) -> tuple[tuple[Value, ...], list[Value]] | None:
        """Runs a loop by its plan; None if the host must run it. A long loop is planned at once."""
        trips = steps.trips
        count = None if trips is None else int(trips)
        if count is not None and count <= 0:
            return None
        if type(trips) is not int and count is not None:
            trips = np.asarray(count, np.int64)
        arguments = [trips, steps.going, steps.carried, steps.read, steps.captured]
        plans, at_once = (
            self.plans[_trace_loop, function.function],
            count is None or count > SHORT_LOOP_STEPS,
        )
        result = self._run(plans, _trace_loop, at_once, function, *arguments)
        return None if result is LEFT else (result[0], list(result[1]))

    def _run(self, plans: Plans, traced: Traced, at_once: bool, *values: Any) -> Value:
        if recording.get():
            return LEFT
        try:
            arguments = PlannedArguments(self.reads, *values)
        except NotPlannedError as error:
            self._record_fallback(values[0], reason_of(error))
            return LEFT
        record = plans.entries.get(arguments.key)
        if record is None:
            if plans.failures >= MAX_FAILURES or not (at_once or plans.was_seen(arguments.key)):
                return LEFT
            record = plans.put(arguments.key, PlanRecord(self._planned(plans, traced, values)))
        if record.plan is None or not record.is_usable:
            return LEFT
        value = record.plan.run([dense(a, a.dtype) for a in arguments.arrays])
        record.fallbacks += value is LEFT
        return value

    def _planned(self, plans: Plans, traced: Traced, values: tuple[Any, ...]) -> StepPlan | None:
        """Traces a plan for the shapes and dtypes of these values; None if this is impossible."""
        tracer = self.tracer()
        placeholders = Placeholders(self.reads, tracer)
        block = tracer.blocks[-1]
        try:
            with within_memory("a plan"):
                value = traced(tracer, *[placeholders.of(value) for value in values])
                return StepPlan(block, placeholders.slots, tracer.growing, value)
        except FALLBACK_ERRORS as error:
            plans.failures += MAX_FAILURES if isinstance(error, EndlessError) else 1
            tracer.record_fallback(error)
            return None
        finally:
            for reason in tracer.fallbacks:
                self._record_fallback(values[0], reason)

    def _record_fallback(self, called: Any, reason: str) -> None:
        """Records the reason why a function or a loop runs on the host."""
        while len(self.fallbacks) >= MAX_REASONS:
            self.fallbacks.pop(next(iter(self.fallbacks)), None)
        name = getattr(called, "name", "") or "a function"
        self.fallbacks[f"{name}: {reason}"] = None


def _trace_call(tracer: PlanTracer, closure: Closure, *args: Value) -> Value:
    """Traces a call with abstract values."""
    return tracer.run(tracer.entered(closure, args))


def _trace_loop(tracer: PlanTracer, function: Any, *arguments: Any) -> Value:
    """Traces a loop with abstract values."""
    result = tracer.loop(function, LoopSpec(*arguments))
    if result is None:
        raise NotPlannedError("a loop without steps")
    return result[0], tuple(result[1])

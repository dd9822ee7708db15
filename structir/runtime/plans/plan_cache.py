"""Caches step plans of host functions and loops, by the shapes and dtypes of their arguments."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any

import attrs
import numpy as np

from structir.analysis.variables import free_vars
from structir.interpret.out_of_memory import within_memory
from structir.interpret.scope import Activation, Closure, Value
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Function, Var
from structir.ops.loop import LoopSpec
from structir.runtime.compiled_region import dense
from structir.runtime.plans.instructions import (
    FALLBACK_ERRORS,
    OUTSIDE,
    MemoryCell,
    NotPlannedError,
    Slot,
    reason_of,
)
from structir.runtime.plans.plan import MAX_CACHED_BYTES, MAX_CACHED_PLANS, recording
from structir.runtime.plans.sized_plan import SizedPlan
from structir.runtime.plans.step_plan import LEFT, StepPlan
from structir.runtime.plans.trace import EndlessError, PlanTracer, RegionFunction
from structir.system.locks import new_lock

MAX_FAILURES = 8  # attempts to plan a function that failed
MAX_FALLBACKS = 4  # runs of a plan that fell back to the host
MAX_SIZED_PLANS = 8  # of a function, by ranks and dtypes
MAX_ELEMENTS_ALONE = 1 << 16  # of the arguments of a call that does not wake other threads
MAX_REASONS = 32  # the latest fallbacks that are recorded

SHORT_LOOP_STEPS = 16  # a loop with at most this many is not planned at its first call
Traced = Callable[..., Value]  # traces a call or a loop
Reads = Callable[[Function], tuple[Var, ...]]  # returns the captured variables


class PlannedArguments:
    """The arguments of a function or a loop: arrays in order, and a key of everything else. With
    `sized`, the sizes are not part of the key."""

    def __init__(self, reads: Reads, values: Sequence[Any], sized: bool = False) -> None:
        self.reads, self.sized = reads, sized
        self.arrays: list[Any] = []
        self.sizes: list[int] = []
        self.key = tuple([self._form(value) for value in values])

    def _form(self, value: Any) -> Any:
        if type(value) is np.ndarray:
            if not value.dtype.isnative or value.dtype.hasobject:
                raise NotPlannedError("an argument that is not a plain array")
            self.arrays.append(value)
            return self._sizes(value.shape), value.dtype
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
        symbols = tuple(outer.sizes)
        return value.function, captured, symbols, self._sizes(outer.sizes.values())

    def _sizes(self, sizes: Collection[Any]) -> Any:
        """Returns the part of the key for sizes: all of them, or their number."""
        if not self.sized or not all([type(size) is int for size in sizes]):
            return tuple(sizes)  # there are row variables, whose sizes are several
        self.sizes += sizes
        return len(sizes)


class Placeholders:
    """Creates placeholders for arrays of known shape and dtype."""

    def __init__(self, reads: Reads, tracer: PlanTracer) -> None:
        self.reads, self.tracer = reads, tracer
        self.slots: list[Slot] = []

    def of(self, value: Any) -> Any:
        """Returns the placeholder of a value."""
        if type(value) is np.ndarray:
            shape = self.sizes_of(value.shape)
            self.slots.append(Slot(MemoryCell(value.nbytes, OUTSIDE), shape, value.dtype))
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

    def sizes_of(self, sizes: Sequence[Any]) -> Sequence[Any]:
        """Returns the sizes during the trace."""
        return sizes

    def _closure(self, value: Closure) -> Closure:
        outer = value.outer
        if outer is not None:
            captured = {v: self.of(outer.value(v)) for v in self.reads(value.function)}
            sizes = self.sizes_of(list(outer.sizes.values()))
            outer = Activation(captured, dict(zip(outer.sizes, sizes, strict=True)))
        return self.tracer.closure(value.function, outer, value.name)


class SizedPlaceholders(Placeholders):
    """Creates placeholders whose sizes are new symbols."""

    def __init__(self, reads: Reads, tracer: PlanTracer) -> None:
        super().__init__(reads, tracer)
        self.symbols: list[Dim] = []

    def sizes_of(self, sizes: Sequence[Any]) -> Sequence[Any]:
        """Returns a new symbol for each size; the sizes themselves if one is that of a row."""
        if not all([type(size) is int for size in sizes]):
            return sizes
        symbols = [dims.sym("size") for _ in sizes]
        self.symbols += symbols
        return symbols


@attrs.define(eq=False)
class SizedRecord:
    """A plan for all sizes, and the number of its successive fallbacks; `plan` is None after a
    failure."""

    plan: SizedPlan | None
    reasons: tuple[str, ...] = ()  # why it runs on the host, or branches of it
    fallbacks: int = 0
    is_only: bool = False  # whether a plan of known sizes would need the host

    @property
    def is_usable(self) -> bool:
        """Whether there is a plan, and it does not fall back to the host repeatedly."""
        return self.plan is not None and self.fallbacks <= MAX_FALLBACKS

    def is_slower(self, arrays: Sequence[Any]) -> bool:
        """Whether threads, which the plan lacks, could share the work of a call."""
        assert self.plan is not None
        return self.plan.threads > 1 and sum([a.size for a in arrays]) > MAX_ELEMENTS_ALONE


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
    sized: dict[Any, SizedRecord] = attrs.Factory(dict)  # by ranks and dtypes
    failures: int = 0  # number of failed attempts
    lock: AbstractContextManager[bool] = attrs.Factory(new_lock)

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

    def is_new(self, key: Any) -> bool:
        """Whether a key has no plan of its own and did not occur before."""
        return key not in self.entries and not self.was_seen(key)

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
    sized_tracer: Callable[[], PlanTracer]
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

    def sized_plan(self, function: Function, args: Sequence[Value]) -> SizedRecord | None:
        """Returns the plan for all sizes if it is the one to use for a call: it is the only plan,
        or these sizes are new. Its arguments are dense arrays, its results new arrays."""
        if recording.get():
            return None
        plans = self.plans[_trace_call, function]
        for record in plans.sized.values():
            plan = record.plan if record.is_usable else None
            if plan is not None and plan.has_new_results and plan.accepts(args):
                if record.is_slower(args):
                    return None
                if record.is_only:
                    return record
                sizes = [size for a in args for size in a.shape]
                is_new = plans.is_new((function, *[(a.shape, a.dtype) for a in args]))
                return record if is_new and not plan.has_run_natively(sizes) else None
        return None

    def run_sized(
        self, record: SizedRecord, called: Any, arrays: Sequence[Any], sizes: Sequence[int]
    ) -> Value:
        """Runs a plan for all sizes; LEFT if the host must compute the value."""
        assert record.plan is not None
        value = record.plan.run(arrays, sizes)
        record.fallbacks = record.fallbacks + 1 if value is LEFT else 0
        if value is LEFT:
            for reason in [*record.plan.reasons]:
                self._record_fallback(called, reason)
        return value

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
            arguments = PlannedArguments(self.reads, values)
        except NotPlannedError as error:
            self._record_fallback(values[0], reason_of(error))
            return LEFT
        record = plans.entries.get(arguments.key)
        if record is None:
            is_new, has_others = not plans.was_seen(arguments.key), len(plans.seen) > 1
            if is_new and has_others and plans.failures < MAX_FAILURES:
                value = self._run_sized(plans, traced, values, is_new=True)
                if value is not LEFT:
                    return value
            if plans.failures >= MAX_FAILURES or (is_new and not at_once):
                return LEFT
            record = plans.put(arguments.key, PlanRecord(self._planned(plans, traced, values)))
        if record.plan is None or not record.is_usable:
            return self._run_sized(plans, traced, values, is_new=False)
        value = record.plan.run([dense(a, a.dtype) for a in arguments.arrays])
        record.fallbacks += value is LEFT
        return value

    def _run_sized(
        self, plans: Plans, traced: Traced, values: tuple[Any, ...], is_new: bool
    ) -> Value:
        """Runs the plan for all sizes; LEFT if there is none.

        Sizes that are not new had a plan of their own, which needed the host. New ones are left to
        such a plan if threads could share the work.
        """
        record, arguments = self._sized_record(plans, traced, values)
        if record is None or record.plan is None or not record.is_usable:
            return LEFT
        arrays = arguments.arrays
        if not is_new and record.reasons:
            return LEFT
        if (is_new or record.is_only) and record.is_slower(arrays):
            return LEFT
        dense_arrays = [dense(a, a.dtype) for a in arrays]
        return self.run_sized(record, values[0], dense_arrays, arguments.sizes)

    def _sized_record(
        self, plans: Plans, traced: Traced, values: tuple[Any, ...]
    ) -> tuple[SizedRecord | None, PlannedArguments]:
        """Returns the plan for all sizes, traced at its first use, and the arguments for it."""
        if traced is _trace_loop and type(values[1]) is int:  # the trip count is not a constant
            values = (values[0], np.asarray(values[1], np.int64), *values[2:])
        arguments = PlannedArguments(self.reads, values, sized=True)
        record = plans.sized.get(arguments.key)
        if record is None and len(plans.sized) < MAX_SIZED_PLANS:
            record = plans.sized[arguments.key] = self._sized(traced, values)
        return record, arguments

    def _sized(self, traced: Traced, values: tuple[Any, ...]) -> SizedRecord:
        """Traces a plan for all sizes."""
        tracer = self.sized_tracer()
        placeholders = SizedPlaceholders(self.reads, tracer)
        block = tracer.blocks[-1]
        try:
            with within_memory("a plan"):
                value = traced(tracer, *[placeholders.of(value) for value in values])
                plan = SizedPlan(block, placeholders.slots, placeholders.symbols, value)
                return SizedRecord(plan, tuple(tracer.fallbacks))
        except (*FALLBACK_ERRORS, TypeError) as error:  # NumPy rejects sizes that are symbols
            tracer.record_fallback(error)
            return SizedRecord(None, tuple(tracer.fallbacks))

    def _planned(self, plans: Plans, traced: Traced, values: tuple[Any, ...]) -> StepPlan | None:
        """Traces a plan for the shapes and dtypes of these values; None if this is impossible, or
        if only a plan for all sizes needs no host."""
        tracer = self.tracer()
        placeholders = Placeholders(self.reads, tracer)
        block, plan = tracer.blocks[-1], None
        try:
            with within_memory("a plan"):
                value = traced(tracer, *[placeholders.of(value) for value in values])
                plan = StepPlan(block, placeholders.slots, tracer.growing, value)
        except FALLBACK_ERRORS as error:
            is_endless = isinstance(error, EndlessError)
            tracer.record_fallback(error)
            if is_endless:
                plans.failures += MAX_FAILURES
        if tracer.fallbacks and plans.failures < MAX_FAILURES:
            sized, _ = self._sized_record(plans, traced, values)
            if sized is not None and sized.is_usable and not sized.reasons:
                sized.is_only = True
                return None
            plans.failures += plan is None
            if plan is None and sized is not None:
                tracer.fallbacks.clear()  # the other plan supports more
                tracer.fallbacks.update(dict.fromkeys(sized.reasons))
        for reason in tracer.fallbacks:
            self._record_fallback(values[0], reason)
        return plan

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

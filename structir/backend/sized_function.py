"""Runs calls of a function that is one region at sizes that occur for the first time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import chain
from typing import Any

from structir.backend.compiled_region import dense
from structir.backend.instructions import FALLBACK_ERRORS, InstructionBlock
from structir.backend.plan import MAX_CACHED_PLANS, recording
from structir.backend.planned import MAX_ELEMENTS_ALONE, MAX_FALLBACKS, SizedPlaceholders
from structir.backend.sized_plan import SizedPlan
from structir.backend.sized_trace import SizedTracer
from structir.backend.step_plan import LEFT
from structir.interpret.scope import Value
from structir.ir.module import IRModule

MIN_SIZES = 2  # sizes that have plans of their own; most programs have few


class SizedFunction:
    """The plan for all sizes of a function, used once for each tuple of sizes: a second call binds
    the kernels to them."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.seen: OrderedDict[Any, None] = OrderedDict()
        self.plan: SizedPlan | None = None
        self.is_usable = True
        self.fallbacks = 0  # successive ones

    def __call__(self, shapes: Any, arrays: Sequence[Any]) -> Value:
        """Returns the result; LEFT if kernels are to be bound to the sizes."""
        if not self.is_usable or shapes in self.seen or recording.get():
            return LEFT
        self.seen[shapes] = None
        if len(self.seen) > MAX_CACHED_PLANS:
            self.seen.popitem(last=False)
        if len(self.seen) <= MIN_SIZES or sum([a.size for a in arrays]) > MAX_ELEMENTS_ALONE:
            return LEFT
        if self.plan is None:
            self._trace(arrays)
        return LEFT if self.plan is None else self._run(self.plan, shapes, arrays)

    def _run(self, plan: SizedPlan, shapes: Any, arrays: Sequence[Any]) -> Value:
        value = plan.run([dense(a, a.dtype) for a in arrays], [*chain.from_iterable(shapes)])
        self.fallbacks = self.fallbacks + 1 if value is LEFT else 0
        self.is_usable = self.fallbacks <= MAX_FALLBACKS
        return value

    def _trace(self, arrays: Sequence[Any]) -> None:
        tracer = SizedTracer(IRModule({}), {}, [InstructionBlock()])
        placeholders = SizedPlaceholders(lambda _: (), tracer)
        block = tracer.blocks[-1]
        try:
            arguments = [placeholders.of(array) for array in arrays]
            value = tracer.region_function(self.function)(*arguments)
            self.plan = SizedPlan(block, placeholders.slots, placeholders.symbols, value)
        except FALLBACK_ERRORS:
            self.is_usable = False

"""Loops whose body is one region, run without Python between the steps.

What a step hands to the next stays where the region has written it: in one of two buffers in turn,
or in the output that grows. The first loop over new sizes makes one step as usual, so that every
check of the body is made once; sizes that stay the same from step to step cannot fail it later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from math import prod
from typing import Any

import attrs
import numpy as np

from structir.backend.compiled_region import CompiledRegion, dense
from structir.backend.cpu.repeat import LOOP, SLOT_WORDS, loop_runner
from structir.backend.loop_body import Around, Given, Known, LoopBody, Made, Source, loop_body
from structir.backend.plan import BoundPlan, recording
from structir.interpret.scope import Closure, Value

Array = Any
AT_ONCE = 256  # steps of a loop that may end at any of them, for which outputs are made
STEP, GOING, CARRIED = 0, 1, 2  # the parameters of a body
MOST_STEPS = 1 << 20  # made at once
MOST_NUMBERED = 1 << 12  # steps whose numbers are kept
MOST_LAYOUTS = 256
ELSEWHERE = -1  # in no buffer that a plan fills


@cache
def _numbers(count: int) -> Array:
    return np.arange(count, dtype=np.int64)


@attrs.frozen(eq=False)
class Layout:
    """What a body makes at given sizes: its plan, and in which buffer each result lies."""

    plan: BoundPlan
    owned: tuple[int, ...]  # for each result of the region, the buffer that it fills
    shapes: tuple[tuple[int, ...], ...]  # and its shape


class LoopRun:
    """One loop: the values of its operands, and what it has made so far."""

    def __init__(self, body: LoopBody, layout: Layout, inputs: Sequence[Any], count: int) -> None:
        self.body, self.layout = body, layout
        self.inputs = list(inputs)  # arrays; None for what changes from step to step
        self.carried_count = count
        grown = body.results[1 + count :]
        self.shown = [s.number for s in grown if isinstance(s, Made)]
        self.growing = [layout.owned[number] for number in self.shown]
        first = body.results[0]
        self.condition = layout.owned[first.number] if isinstance(first, Made) else None

    def steps(
        self, start: int, count: int, going: Array, carried: Sequence[Array]
    ) -> tuple[int, Array, list[Array], list[Array]]:
        """How many steps were made, the next condition and carried values, the outputs."""
        given = [_step_numbers(start, count), going, *carried]
        forms = self.layout.plan.owned_forms
        memory = [
            np.empty((count if k in self.growing else 2, *shape), dtype)
            for k, (shape, dtype) in enumerate(forms)
        ]
        rows = [self._input(k, source, given, memory) for k, source in enumerate(self.body.inputs)]
        rows += [self._output(len(rows) + k, array) for k, array in enumerate(memory)]
        done = self._run(rows, count)
        last = [self._last(s, given, memory, done) for s in self.body.results]
        outputs = [self._whole(number, memory, done) for number in self.shown]
        return done, last[0], last[1 : 1 + self.carried_count], outputs

    def _run(self, rows: Sequence[tuple[int, ...]], count: int) -> int:
        """Run the steps; how many there were."""
        plan = self.layout.plan
        space = plan.workspace()
        slots = np.array(list(chain.from_iterable(rows)), np.int64)
        place = -1 if self.condition is None else len(self.body.inputs) + self.condition
        words = np.array(
            [space.words.ctypes.data, slots.ctypes.data, len(slots) // SLOT_WORDS, count, place, 0],
            np.int64,
        )
        failed = loop_runner()(words.ctypes.data)
        error = space.failure(failed - 1) if failed else None
        plan.give_back(space)
        if error is not None:
            raise error
        return int(words[LOOP.done])

    def _input(
        self, place: int, source: Source, given: Sequence[Array], memory: Sequence[Array]
    ) -> tuple[int, int, int, int, int]:
        """The slot of an operand of the region."""
        fixed = self.inputs[place]
        if fixed is None and isinstance(source, Given):
            before = given[source.number].ctypes.data
            if source.number == STEP:
                return place, 0, before, before, 8
            after = self.body.results[source.number - 1]
            if not isinstance(after, Made):
                return place, 0, before, before, 0
            number = self.layout.owned[after.number]
            return place, before, *self._before(number, memory[number])
        at = fixed.ctypes.data
        return place, 0, at, at, 0

    def _before(self, number: int, array: Array) -> tuple[int, int, int]:
        """Where a step finds what the step before it has made."""
        at, size = array.ctypes.data, _element_bytes(array)
        if number in self.growing:
            return at - size, at - size, size
        return at + size, at, 0

    def _output(self, place: int, array: Array) -> tuple[int, int, int, int, int]:
        number = place - len(self.body.inputs)
        at, size = array.ctypes.data, _element_bytes(array)
        if number in self.growing:
            return place, 0, at, at, size
        return place, 0, at, at + size, 0

    def _last(
        self, source: Source, given: Sequence[Array], memory: Sequence[Array], done: int
    ) -> Array:
        """What a result is after the last step."""
        if isinstance(source, Made):
            number = self.layout.owned[source.number]
            row = done - 1 if number in self.growing else (done - 1) % 2
            return np.array(memory[number][row]).reshape(self.layout.shapes[source.number])
        known: Any = source
        return known.data if isinstance(source, Known) else given[known.number]

    def _whole(self, number: int, memory: Sequence[Array], done: int) -> Array:
        """The elements of an output, side by side."""
        array = memory[self.layout.owned[number]][:done]
        return array.reshape((done, *self.layout.shapes[number]))


def _element_bytes(array: Array) -> int:
    return int(prod(array.shape[1:]) * array.itemsize)


def _step_numbers(start: int, count: int) -> Array:
    if start + count <= MOST_NUMBERED:
        return _numbers(MOST_NUMBERED)[start:]
    return np.arange(start, start + count, dtype=np.int64)


def _is_simple(body: LoopBody, count: int) -> bool:
    """Whether every value that changes from step to step is what the region makes of it."""
    first, *others = body.results
    stays = [Given(CARRIED + k) for k in range(count)]
    moved = all(
        isinstance(s, Made) or s == stay for s, stay in zip(others[:count], stays, strict=True)
    )
    grown = all(isinstance(s, Made) for s in others[count:])
    return moved and grown and (isinstance(first, Made | Known) or first == Given(GOING))


@attrs.frozen(eq=False)
class Loops:
    """The loops of a program: the forms of their bodies, and the sizes at which they were
    checked."""

    bodies: dict[int, tuple[Any, LoopBody | None]] = attrs.Factory(dict)  # by function
    layouts: dict[Any, Layout | None] = attrs.Factory(dict)

    def run(
        self,
        closure: Closure,
        trips: Any,
        condition: Any,
        carried: tuple[Value, ...],
        outputs: int,
    ) -> tuple[tuple[Value, ...], list[Value]] | None:
        """The carried values at the end, and the outputs; None where each step must be made by
        itself."""
        body = self._body(closure.function, len(carried))
        if body is None or recording.get():
            return None
        going = np.asarray(True) if isinstance(condition, tuple) else np.asarray(condition)
        limit = None if isinstance(trips, tuple) else int(trips)
        if limit == 0 or not going or len(body.results) != 1 + len(carried) + outputs:
            return None
        given = (_numbers(1)[0:1].reshape(()), going, *carried)
        arrays = [_value(source, given, closure) for source in body.inputs]
        if not all(type(a) is np.ndarray for a in (*arrays, *carried)):
            return None
        layout = self._layout(closure, body, given, arrays)
        if layout is None:
            return None
        moving = [isinstance(source, Given) for source in body.inputs]
        pairs = zip(arrays, body.region.forms, moving, strict=True)
        fixed = [None if moves else dense(a, form[0]) for a, form, moves in pairs]
        run = LoopRun(body, layout, fixed, len(carried))
        return _made(run, going, [dense(a, a.dtype) for a in carried], limit)

    def _body(self, function: Any, count: int) -> LoopBody | None:
        found = self.bodies.get(id(function))
        if found is None:
            body = loop_body(function)
            simple = body is not None and _is_simple(body, count)
            found = self.bodies[id(function)] = (function, body if simple else None)
        return found[1]

    def _layout(
        self, closure: Closure, body: LoopBody, given: Sequence[Array], arrays: Sequence[Array]
    ) -> Layout | None:
        """Where the results lie at these sizes; None where they change from step to step."""
        sizes: Mapping[Any, int] = closure.outer.sizes if closure.outer else {}
        forms = tuple([(a.shape, a.dtype) for a in (*given, *arrays)])
        key = (id(closure.function), forms, tuple(sizes.items()))
        if key not in self.layouts:
            if len(self.layouts) >= MOST_LAYOUTS:
                self.layouts.clear()
            closure(*given)  # all that the body checks
            self.layouts[key] = _laid_out(body, given, arrays, sizes)
        return self.layouts[key]


def _value(source: Source, given: Sequence[Array], closure: Closure) -> Any:
    match source:
        case Given(number):
            return given[number]
        case Around(var):
            return closure.outer.value(var) if closure.outer else None
        case Known(data):
            return data
    return None


def _laid_out(
    body: LoopBody, given: Sequence[Array], arrays: Sequence[Array], sizes: Mapping[Any, int]
) -> Layout | None:
    region: CompiledRegion = body.region
    if any(s not in sizes for s in region.free_symbols):
        return None
    key: Any = tuple([a.shape for a in arrays])
    if region.free_symbols:
        key = (key, tuple([sizes[s] for s in region.free_symbols]))
    plan = region.bound(key) or region.bind(key, arrays, sizes)
    layout = _layout_of(plan)
    made = [s.number for s in body.results if isinstance(s, Made)]
    filled = all(layout.owned[number] != ELSEWHERE for number in made)
    return layout if filled and _is_steady(body, layout, given) else None


def _layout_of(bound: BoundPlan) -> Layout:
    """Where the results of a plan lie among the buffers that it fills."""
    plan = bound.plan
    shapes = dict(zip(plan.outputs, bound.output_shapes, strict=True))
    owned, found = [], []
    for buffer in plan.results:
        number = plan.owned.index(buffer.root) if buffer.root in plan.owned else ELSEWHERE
        own = bound.owned_forms[number][0] if number != ELSEWHERE else ()
        shape = own if buffer.base is None else shapes[buffer]
        owned.append(number if prod(shape) == prod(own) else ELSEWHERE)
        found.append(tuple(shape))
    return Layout(bound, tuple(owned), tuple(found))


def _is_steady(body: LoopBody, layout: Layout, given: Sequence[Array]) -> bool:
    """Whether a step hands on what it was given, as far as shapes and dtypes go."""
    for before, source in zip(given[GOING:], body.results, strict=False):
        if isinstance(source, Made):
            dtype = layout.plan.owned_forms[layout.owned[source.number]][1]
            if layout.shapes[source.number] != before.shape or dtype != before.dtype:
                return False
    return True


def _made(
    run: LoopRun, going: Array, carried: Sequence[Array], limit: int | None
) -> tuple[tuple[Value, ...], list[Value]]:
    """All steps of a loop."""
    first = run.body.results[0]
    open_ended = limit is None or run.condition is not None
    most = AT_ONCE if open_ended else MOST_STEPS
    if isinstance(first, Known) and not first.data:
        most = 1
    start, pieces = 0, []
    while going and (limit is None or start < limit):
        count = most if limit is None else min(most, limit - start)
        done, going, carried, outputs = run.steps(start, count, going, carried)
        pieces.append([o if done == count else o.copy() for o in outputs])
        start += done
    whole = [c[0] if len(c) == 1 else np.concatenate(c) for c in zip(*pieces, strict=True)]
    return tuple(carried), whole

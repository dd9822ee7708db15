"""Searches inputs for the outcomes of decisions that no sample had."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import numpy as np

from structir.ir.dtype import dtype_of, int_limits, is_float, is_int
from structir.passes.manager.decisions import Closest, DecisionRecord, Key
from structir.passes.manager.input_sample import InputSample, outcome
from structir.passes.manager.samples import SMALL_SIZES, Sampler

MOST_KNOWN = 16  # samples on which the decisions of the first program are recorded
MOST_TARGETS = 10  # outcomes that are searched one by one
MOST_COORDINATES = 4  # elements of inputs that are changed in turn
SECANTS = 5
STEPS = (1.0, -1.0, 16.0, -16.0, 0.125)
NEAR = 1e-3
BISECTIONS = 9
SEED = 3000
CANDIDATES = (  # a domain of floats, a distribution of integers, whether parameters are alike
    ("numbers", "numbers", False),
    ("ties", "few", False),
    ("integral", "few", True),
    ("ascending", "ascending", False),
    ("signed", "numbers", True),
    ("descending", "descending", False),
    ("zeros", "few", False),
    ("numbers", "few", True),
    ("constant", "zeros", True),
    ("negative", "numbers", False),
    ("times", "all", False),
    ("positive", "clusters", False),
)
TURNS = 3  # seeds and sizes of each candidate
WIDE_RANGE = 1e6  # beyond which a step is no longer tried


@attrs.define(eq=False)
class DecisionSearch:
    """A search for inputs of a function at which two programs decide otherwise than so far.

    The consumer of its samples runs the second program on each, with the same record.
    """

    sampler: Sampler
    record: DecisionRecord
    numbers: tuple[float, ...]

    def samples(self, known: Sequence[InputSample]) -> Iterator[InputSample]:
        """Yields samples with new outcomes, and those on the way to them."""
        if not self.record.calls or self.sampler.start is None:
            return
        for sample in [each for each in known if each.accepted][:MOST_KNOWN]:
            self.record.sample = sample
            outcome(self.sampler.module, self.sampler.name, sample.arguments, self.record)
        self.sampler.decisions = self.record
        yield from self._random()
        targets = sorted(self.record.missing(), key=lambda target: target[1] == 0)
        for key, sign in targets[:MOST_TARGETS]:
            if sign not in self.record.seen.get(key, ()):
                yield from self._toward(key, sign)

    def _random(self) -> Iterator[InputSample]:
        """Yields samples of many kinds of values, while outcomes are missing."""
        assert self.sampler.start is not None
        start, values = self.sampler.start
        values = attrs.evolve(values, numbers=self.numbers)
        for turn in range(TURNS):
            for number, (domain, integers, alike) in enumerate(CANDIDATES):
                if not self.record.missing():
                    return
                sizes = self._sizes(start, turn, number)
                other = attrs.evolve(
                    values,
                    domain=domain,
                    integers=integers,
                    alike=alike,
                    seed=SEED + turn * len(CANDIDATES) + number,
                    scale=10.0 ** (number % 3),
                )
                sample = self.sampler.attempt(sizes, other)
                if sample is not None and sample.accepted:
                    yield self._chosen(sample)

    def _sizes(self, start: InputSample, turn: int, number: int) -> dict[str, int]:
        if turn == 0:
            return start.sizes
        if turn == 1:
            return self.sampler.roomy or start.sizes
        names = [name for name in start.sizes if name not in self.sampler.fixed]
        sizes = [SMALL_SIZES[(k + number) % len(SMALL_SIZES)] for k in range(len(names))]
        small = {**start.sizes, **dict(zip(names, sizes, strict=True))}
        return small if self.sampler.space.allows(small) else start.sizes

    def _chosen(self, sample: InputSample) -> InputSample:
        self.record.sample = sample
        return sample.widened(self.sampler.wide)

    def _toward(self, key: Key, sign: int) -> Iterator[InputSample]:
        """Yields samples that change one element of an input, so that a margin gets a sign."""
        best = self.record.closest.get(key)
        if best is None or best.sample is None:
            return
        if not sign:
            yield from self._between(key)
        for position in _positions(best.sample.arguments, best)[:MOST_COORDINATES]:
            for step in STEPS:
                effect = [0.0]
                yield from self._steps(key, sign, best, position, step, effect)
                if sign in self.record.seen.get(key, ()):
                    return
                if effect[0] * (sign - best.value) > 0:
                    break  # the step was in the right direction

    def _between(self, key: Key) -> Iterator[InputSample]:
        """Yields mixtures of an input with a negative margin and one with a positive margin, by
        bisection over the number of their first elements."""
        pairs = [signs for signs in self.record.single.get(key, {}).values() if {-1, 1} <= {*signs}]
        if not pairs:
            return
        samples, low, high = pairs[-1], 0.0, 1.0
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            mixed = _mixture(samples[-1].arguments, samples[1].arguments, middle)
            self.record.latest.clear()
            sample = self.sampler.run(samples[1].sizes, mixed)
            if sample is None or not sample.accepted:
                return
            yield self._chosen(sample)
            margin = self.record.latest.get(key)
            if margin is None or margin.size != 1 or 0 in self.record.seen.get(key, ()):
                return
            low, high = (middle, high) if margin[0] < 0 else (low, middle)

    def _steps(
        self,
        key: Key,
        sign: int,
        best: Closest,
        position: tuple[int, int],
        step: float,
        effect: list[float],
    ) -> Iterator[InputSample]:
        """Yields samples of a secant method along one element, then along several at once.

        Adds the effect of the first step on the margin to `effect`.
        """
        array = best.sample.arguments[position[0]]
        first = float(array.reshape(-1)[position[1]])
        target = sign * max(1.0, abs(best.value) / 2)
        points = [(first, best.value)]
        x = _moved(array, first, step)
        for _ in range(SECANTS):
            if x is None or x in [known for known, _ in points]:
                break
            yield from self._run(best.sample, position, x, 1)
            margin = self._margin(key, best)
            if margin is None:
                return
            if sign in self.record.seen.get(key, ()):
                yield from self._both_sides(best, position, x)
                return
            points.append((x, margin))
            change = points[-1][1] - points[-2][1]
            effect[0] = effect[0] or change
            if not change:
                break
            slope = change / (points[-1][0] - points[-2][0])
            x = _moved(array, x, (target - margin) / slope)
        if effect[0]:
            yield from self._several(key, sign, best, position, points[1][0], effect[0], target)

    def _both_sides(
        self, best: Closest, position: tuple[int, int], x: float
    ) -> Iterator[InputSample]:
        """Yields samples with an element just below a value and just above it."""
        array = best.sample.arguments[position[0]]
        for share in (1 - NEAR, 1 + NEAR):
            near = _moved(array, x, x * share - x)
            if near is not None and array.dtype != bool:
                yield from self._run(best.sample, position, near, 1)

    def _several(
        self,
        key: Key,
        sign: int,
        best: Closest,
        position: tuple[int, int],
        value: float,
        change: float,
        target: float,
    ) -> Iterator[InputSample]:
        """Yields samples with one value for several elements, whose effects add up, as in a count
        of elements."""
        margin: float | None = best.value
        count, size = 0, best.sample.arguments[position[0]].size
        for _ in range(SECANTS):
            if margin is None or (target - margin) / change <= 0:
                return
            count = min(count + max(1, round((target - margin) / change)), size)
            yield from self._run(best.sample, (position[0], 0), value, count)
            margin = self._margin(key, best)
            if sign in self.record.seen.get(key, ()) or count == size:
                return

    def _margin(self, key: Key, best: Closest) -> float | None:
        """Returns the margin of the latest run at an element; None if it has no such element."""
        latest = self.record.latest.get(key)
        if latest is None or latest.size != best.count or not np.isfinite(latest[best.index]):
            return None
        return float(latest[best.index])

    def _run(
        self, sample: InputSample, position: tuple[int, int], value: float, count: int
    ) -> Iterator[InputSample]:
        """Yields a sample with a value for some consecutive elements of an argument."""
        arguments = list(sample.arguments)
        array = np.array(arguments[position[0]])
        array.reshape(-1)[position[1] : position[1] + count] = value
        arguments[position[0]] = array
        self.record.latest.clear()
        changed = self.sampler.run(sample.sizes, arguments)
        if changed is not None and changed.accepted:
            yield self._chosen(changed)


def _positions(arguments: list[Any], best: Closest) -> list[tuple[int, int]]:
    """Returns elements of the arguments that may determine an element of a margin: in arguments of
    the same size first."""
    arrays = [
        (k, argument)
        for k, argument in enumerate(arguments)
        if isinstance(argument, np.ndarray | np.generic) and argument.size and _is_number(argument)
    ]
    alike = [(k, best.index) for k, array in arrays if array.size == best.count]
    others = [(k, best.index * array.size // best.count) for k, array in arrays]
    spread = [
        (k, index)
        for part in (0, 1, 2)
        for k, array in arrays
        for index in [part * array.size // 3]
    ]
    return list(dict.fromkeys([*alike, *others, *spread]))


def _mixture(first: list[Any], second: list[Any], share: float) -> list[Any]:
    """Returns arguments whose first elements are those of the second ones, and whose scalar floats
    are between both."""
    mixed = []
    for a, b in zip(first, second, strict=True):
        if not isinstance(a, np.ndarray | np.generic) or np.shape(a) != np.shape(b):
            mixed.append(a)
            continue
        if np.ndim(a) == 0 and _is_number(a) and a.dtype != bool:
            mixed.append(np.asarray(a * (1.0 - share) + b * share).astype(a.dtype))
            continue
        array = np.array(a)
        count = round(share * array.size)
        array.reshape(-1)[:count] = np.reshape(b, -1)[:count]
        mixed.append(array)
    return mixed


def _is_number(array: Any) -> bool:
    dtype = dtype_of(np.asarray(array))
    return dtype == "bool" or is_float(dtype) or is_int(dtype)


def _moved(array: Any, value: float, step: float) -> float | None:
    """Returns a value after a step, as its dtype represents it; None if it cannot be moved."""
    if array.dtype == bool:
        return float(not value)
    if not np.isfinite(value + step) or abs(step) > WIDE_RANGE * max(1.0, abs(value)):
        return None
    dtype = dtype_of(array)
    if is_float(dtype):
        with np.errstate(all="ignore"):
            moved = float(np.asarray(value + step).astype(array.dtype))
        return moved if np.isfinite(moved) else None
    low, high = int_limits(dtype)
    whole = value + np.sign(step) * max(1, round(abs(step)))
    return float(min(max(whole, low), high)) if abs(whole) < 2**53 else None

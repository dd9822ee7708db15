"""Searches inputs for the outcomes of decisions that no sample had."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import numpy as np

from structir.ir.dtype import dtype_of, int_limits, is_float, is_int
from structir.passes.manager.decisions import Closest, DecisionRecord, Key
from structir.passes.manager.edge_plan import dtypes_of
from structir.passes.manager.further_inputs import far_scalars, many_elements
from structir.passes.manager.input_sample import InputSample, outcome
from structir.passes.manager.samples import SMALL_SIZES, Sampler

MOST_KNOWN = 16  # samples on which the decisions of the first program are recorded
MOST_RUNS = 260  # of one search
MOST_TARGET_RUNS = 40  # for one outcome
MOST_TARGETS = 10  # outcomes that are searched one by one
MOST_COORDINATES = 3  # elements of inputs that are changed in turn
MOST_SCALARS = 3
PARTNERS = ("fractions", "times", "fractions", "positive")  # domains of further ones
MOST_PARTNERS = 3  # samples that are combined with the scalars of another one
SCALE_EXPONENTS = (-24, 12, -60)  # of two, by which arguments are scaled
SCALE_BISECTIONS = 7
MOST_SCALED = 3  # arguments
ITERATIONS = 9  # of a search along one element
BISECTIONS = 11
GROWTH = 16  # of a step over the one before
LONG = 600  # iterations
MOST_LONG_WORK = 1 << 22
NEAR = 1e-3
SEED = 3000
FLOAT_STEPS = (1.0, -1.0, 16.0, -16.0)
INTEGER_STEPS = (1.0, 512.0, -1.0, -512.0)
FLOAT_DIVISOR, INTEGER_DIVISOR = 1 << 10, 1 << 14
WIDE_RANGE = 1e6  # beyond which a step is no longer tried
CANDIDATES = (  # a domain of floats, a distribution of integers, whether parameters are alike
    ("numbers", "numbers", False),
    ("ties", "few", False),
    ("integral", "few", True),
    ("ascending", "ascending", False),
    ("signed", "scales", True),
    ("descending", "descending", False),
    ("zeros", "few", False),
    ("numbers", "few", True),
    ("constant", "zeros", True),
    ("negative", "numbers", False),
    ("times", "scales", False),
    ("positive", "clusters", False),
)
NON_FINITE = (("one_nan", "few", False), ("one_infinite", "few", False))
SQUARE = (("symmetric", "symmetric", False), ("identity", "few", False))  # matrices
TURNS = 3  # seeds and sizes of each candidate


@attrs.frozen
class InputElement:
    """An element of an argument."""

    argument: int
    index: int


@attrs.define(eq=False)
class DecisionSearch:
    """A search for inputs of a function at which two programs decide otherwise than so far.

    The consumer of its samples runs the second program on each, with the same record.
    """

    sampler: Sampler
    record: DecisionRecord
    numbers: tuple[float, ...]
    runs: int = attrs.field(default=0, init=False)
    limit: int = attrs.field(default=MOST_RUNS, init=False)  # of runs for the present target

    def samples(self, known: Sequence[InputSample]) -> Iterator[InputSample]:
        """Yields samples with new outcomes, and those on the way to them."""
        if not self.record.calls or self.sampler.start is None:
            return
        accepted = [each for each in known if each.accepted]
        for sample in accepted[:MOST_KNOWN]:
            self.record.sample = sample
            outcome(self.sampler.module, self.sampler.name, sample.arguments, self.record)
        self.sampler.decisions = self.record
        yield from self._long()
        yield from self._random()
        yield from self._further()
        yield from self._recombined(accepted)
        missing = self.record.missing()
        zeros = [target for target in self.record.outcomes() if not target[1]]
        zeros.sort(key=lambda target: target not in missing)
        for key, sign in [*zeros[:MOST_TARGETS], *missing[:MOST_TARGETS]]:
            self.limit = min(self.runs + MOST_TARGET_RUNS, MOST_RUNS)
            if sign not in self.record.seen.get(key, ()):
                yield from self._toward(key, sign)
            elif not sign:
                for number, start in enumerate(self.record.starts.get(key, ())):
                    if not number:
                        yield from self._at_scales(key, 0, start)
                    yield from self._along_first(key, 0, start, 1)

    def _random(self) -> Iterator[InputSample]:
        """Yields samples of many kinds of values, while outcomes are missing; all if the results
        are discrete, which hide differences."""
        assert self.sampler.start is not None
        start, values = self.sampler.start
        for turn in range(TURNS):
            for number, (domain, integers, alike) in enumerate(self._candidates()):
                if not (self.record.missing() or self.sampler.is_discrete()):
                    return
                sizes = self._sizes(start, turn, number)
                other = attrs.evolve(
                    values,
                    domain=domain,
                    integers=integers,
                    alike=alike,
                    numbers=self.numbers,
                    seed=SEED + turn * len(CANDIDATES) + number,
                    scale=10.0 ** (number % 3),
                )
                sample = self.sampler.attempt(sizes, other)
                if sample is not None and sample.accepted:
                    yield self._chosen(sample)

    def _candidates(self) -> Iterator[tuple[str, str, bool]]:
        """Yields the distributions of values."""
        yield from CANDIDATES
        if any(dtypes_of(param.struct_info) for param in self.sampler.space.params):
            yield from NON_FINITE
        shapes = [getattr(p.struct_info, "dims", None) for p in self.sampler.space.params]
        if any(isinstance(s, tuple) and len(s) > 1 and s[-1] == s[-2] for s in shapes):
            yield from SQUARE

    def _further(self) -> Iterator[InputSample]:
        """Yields samples for rare outcomes."""
        for samples in (many_elements, far_scalars):
            if self.record.missing() or self.sampler.is_discrete():
                for sample in samples(self.sampler, self.numbers):
                    yield self._chosen(sample)

    def _long(self) -> Iterator[InputSample]:
        """Yields samples with many iterations of loops, if a decision in them lacks an outcome."""
        assert self.sampler.start is not None
        start, values = self.sampler.start
        is_called = self.sampler.calls_functions() and self.record.missing()
        for name in start.sizes if is_called else ():
            sizes = {**start.sizes, name: LONG}
            is_short = self.sampler.space.work(sizes) <= MOST_LONG_WORK
            for param in self.sampler.float_params()[-2:] or [""]:
                other = attrs.evolve(values, domain="signed", special=(param, "zeros"))
                if name not in self.sampler.fixed and is_short:
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

    def _run(self, sample: InputSample, arguments: list[Any]) -> Iterator[InputSample]:
        """Yields a sample of the same sizes with other arguments, if the program accepts these."""
        self.record.latest.clear()
        if self.runs < self.limit:
            self.runs += 1
            changed = self.sampler.run(sample.sizes, sample.nested(arguments))
            if changed is not None and changed.accepted:
                yield self._chosen(changed)

    def _toward(self, key: Key, sign: int) -> Iterator[InputSample]:
        """Yields samples that change one element of an input, so that a margin gets a sign."""
        if not sign:
            yield from self._between(key)
        closest = self.record.closest.get(key)
        starts = [*self.record.starts.get(key, ())[:2], *([] if closest is None else [closest])]
        for start in starts:
            if start.sample is not None and sign not in self.record.seen.get(key, ()):
                yield from self._at_scales(key, sign, start)
        for start in starts:
            if start.sample is not None and sign not in self.record.seen.get(key, ()):
                yield from self._along_first(key, sign, start, MOST_COORDINATES)

    def _at_scales(self, key: Key, sign: int, start: Closest) -> Iterator[InputSample]:
        """Yields samples that scale all elements of one argument, so that a margin gets a sign: one
        element of many has little effect on a norm. Those found are on both sides of 0."""
        sign = sign or int(-np.sign(start.value))
        arrays = list(enumerate(start.sample.flat))
        floats = [k for k, each in arrays if _is_array(each) and is_float(dtype_of(each))]
        for k in [k for k in floats if start.sample.flat[k].size > 1][:MOST_SCALED]:
            for exponent in SCALE_EXPONENTS:
                yield from self._scaled(start.sample, k, exponent)
                margin = self._margin(key, start)
                if margin is not None and np.sign(margin) == sign:
                    near, far = 0.0, float(exponent)
                    for _ in range(SCALE_BISECTIONS):
                        middle = (near + far) / 2
                        yield from self._scaled(start.sample, k, middle)
                        margin = self._margin(key, start)
                        is_far = margin is not None and np.sign(margin) == sign
                        near, far = (near, middle) if is_far else (middle, far)
                    return

    def _scaled(self, sample: InputSample, argument: int, exponent: float) -> Iterator[InputSample]:
        """Yields a sample with one argument times a power of two."""
        arguments = list(sample.flat)
        array = arguments[argument]
        with np.errstate(all="ignore"):
            arguments[argument] = (array.astype(np.float64) * 2.0**exponent).astype(array.dtype)
        yield from self._run(sample, arguments)

    def _along_first(self, key: Key, sign: int, start: Closest, most: int) -> Iterator[InputSample]:
        """Yields samples along the first elements that have an effect on a margin."""
        for element in _elements(start)[:most]:
            array = start.sample.flat[element.argument]
            steps = FLOAT_STEPS if is_float(dtype_of(np.asarray(array))) else INTEGER_STEPS
            for step in steps[:1] if array.dtype == bool else steps:
                line = Line(start, element, step)
                yield from self._along(key, sign, line)
                if line.solved:
                    return
                if line.effect * (sign - start.value) > 0:
                    break  # the step was in the right direction
                if not line.effect and step == steps[0]:
                    start = yield from self._shrunk(key, start, element)

    def _shrunk(self, key: Key, start: Closest, element: InputElement) -> Any:
        """Yields a sample with a smaller value of an element, out of the range of a saturation;
        returns that start, or the same one if the margin is equal."""
        line = Line(start, element, 0.0)
        divisor = FLOAT_DIVISOR if line.array.dtype.kind not in "biu" else INTEGER_DIVISOR
        value = line.points[0][0]
        x = None if line.array.dtype == bool else _moved(line.array, value, value / divisor - value)
        if x is None or x == value:
            return start
        sample = None
        for changed in self._run(start.sample, line.arguments(x)):
            sample = changed
            yield changed
        margin = self._margin(key, start)
        if sample is None or margin is None or margin == start.value:
            return start
        return Closest(margin, start.index, start.count, sample)

    def _along(self, key: Key, sign: int, line: Line) -> Iterator[InputSample]:
        """Yields samples of a search along one element, then along several at once."""
        start, sample = line.start, line.start.sample
        line.target = sign * max(1.0, abs(start.value) / 2)
        for _ in range(ITERATIONS):
            x = line.next()
            if x is None:
                break
            yield from self._run(sample, line.arguments(x))
            margin = self._margin(key, start)
            if margin is None:
                return
            line.add(x, margin)
            if np.sign(margin) == sign:
                line.solved = True
                for near in line.both_sides(x):
                    yield from self._run(sample, line.arguments(near))
                return
        count, margin = 0, start.value
        while line.effect and (line.target - margin) / line.effect > 0 and count < line.size:
            wanted = max(1, round((line.target - margin) / line.effect))
            count = min(count + wanted, line.size)
            yield from self._run(sample, line.arguments(line.points[1][0], count))
            latest = self._margin(key, start)
            if latest is None or latest == margin or self.runs >= self.limit:
                return
            margin = latest
            line.solved = bool(np.sign(margin) == sign)

    def _margin(self, key: Key, start: Closest) -> float | None:
        """Returns the margin of the latest run at an element; None if it has no such element."""
        latest = self.record.latest.get(key)
        if latest is None or latest.size != start.count or not np.isfinite(latest[start.index]):
            return None
        return float(latest[start.index])

    def _between(self, key: Key) -> Iterator[InputSample]:
        """Yields mixtures of an input with a negative margin and one with a positive margin, by
        bisection over the number of their first elements, and the scalars, or with those of one."""
        pairs = [signs for signs in self.record.single.get(key, {}).values() if {-1, 1} <= {*signs}]
        if not pairs:
            return
        for share in (None, 0.0, 1.0):
            samples, low, high = pairs[-1], 0.0, 1.0
            for _ in range(BISECTIONS):
                middle = (low + high) / 2
                arguments = samples[-1][1].flat, samples[1][1].flat
                mixed = _mixture(*arguments, middle, middle if share is None else share)
                yield from self._run(samples[1][1], mixed)
                margin = self.record.latest.get(key)
                if margin is None or margin.size != 1 or 0 in self.record.seen.get(key, ()):
                    return
                low, high = (middle, high) if margin[0] < 0 else (low, middle)
            if not _has_scalars(samples[1][1].flat):
                return

    def _recombined(self, known: Sequence[InputSample]) -> Iterator[InputSample]:
        """Yields samples with the scalars of one with an outcome, and the arrays of others: a case
        that scalars select may agree for some arrays."""
        for by_sizes in list(self.record.single.values()):
            for sizes, signs in list(by_sizes.items()):
                partners = [each for each in known if tuple(each.sizes.items()) == sizes][1:]
                partners = [*partners[:MOST_PARTNERS], *self._partners(dict(sizes))]
                for _, sample in list(signs.values()):
                    for partner in partners:
                        for mixed in _with_scalars(sample.flat, partner.flat):
                            yield from self._run(sample, mixed)
                break  # at the first sizes

    def _partners(self, sizes: dict[str, int]) -> Iterator[InputSample]:
        assert self.sampler.start is not None
        for number, domain in enumerate(PARTNERS):
            values = attrs.evolve(
                self.sampler.start[1], domain=domain, seed=SEED - 1 - number, scale=3.0
            )
            sample = self.sampler.attempt(sizes, values)
            if sample is not None and sample.accepted:
                yield sample


@attrs.define(eq=False)
class Line:
    """The values of one element of an input, and the margins at them."""

    start: Closest
    element: InputElement
    step: float
    target: float = 0.0
    points: list[tuple[float, float]] = attrs.Factory(list)
    solved: bool = False

    def __attrs_post_init__(self) -> None:
        self.points.append((float(self.array.reshape(-1)[self.element.index]), self.start.value))

    @property
    def array(self) -> Any:
        """The argument with the element."""
        return self.start.sample.flat[self.element.argument]

    @property
    def size(self) -> int:
        return int(self.array.size)

    @property
    def effect(self) -> float:
        """The effect of the first step."""
        return self.points[1][1] - self.points[0][1] if len(self.points) > 1 else 0.0

    def add(self, x: float, margin: float) -> None:
        self.points.append((x, margin))

    def next(self) -> float | None:
        """Returns the next value: within a bracket if there is one, else by a secant."""
        first = self.points[0][0]
        if len(self.points) == 1:
            return _moved(self.array, first, self.step)
        if self.array.dtype == bool or not self.effect:
            return None
        (x0, m0), (x1, m1) = self.points[-2:]
        below = [point for point in self.points if point[1] < self.target]
        above = [point for point in self.points if point[1] > self.target]
        if below and above and len(self.points) > 2:
            (x0, m0), (x1, m1) = below[-1], above[-1]
            share = 0.5 if len(self.points) % 2 else (self.target - m0) / (m1 - m0)
            x = _moved(self.array, x0, share * (x1 - x0))
        elif m1 != m0:
            secant = (self.target - m1) * (x1 - x0) / (m1 - m0)
            limit = GROWTH * max(abs(x1 - x0), 1.0) * len(self.points)
            limit = max(limit, abs(self.target - m1) * 2)
            x = _moved(self.array, x1, float(np.clip(secant, -limit, limit)))
        else:
            return None
        return None if x is None or x in [known for known, _ in self.points] else x

    def both_sides(self, x: float) -> list[float]:
        """Returns the values just below and just above one."""
        if self.array.dtype == bool:
            return []
        near = [_moved(self.array, x, sign * NEAR * abs(x)) for sign in (-1, 1)]
        return [each for each in near if each is not None]

    def arguments(self, x: float, count: int = 0) -> list[Any]:
        """Returns the arguments with a value for the element, or for the first `count` ones."""
        arguments = list(self.start.sample.flat)
        array = np.array(self.array)
        where = slice(0, count) if count else self.element.index
        array.reshape(-1)[where] = x
        arguments[self.element.argument] = array
        return arguments


def _elements(start: Closest) -> list[InputElement]:
    """Returns elements of the arguments that may determine an element of a margin: scalars, those
    of arguments of the same size, and others."""
    arrays = [
        (k, argument)
        for k, argument in enumerate(start.sample.flat)
        if _is_array(argument) and argument.size and _is_number(argument)
    ]
    scalars = [InputElement(k, 0) for k, array in arrays if array.size == 1]
    alike = [InputElement(k, start.index) for k, array in arrays if array.size == start.count]
    others = [InputElement(k, start.index * array.size // start.count) for k, array in arrays]
    spread = [InputElement(k, part * array.size // 3) for part in (0, 1, 2) for k, array in arrays]
    return list(dict.fromkeys([*scalars, *alike, *others, *spread]))


def _has_scalars(arguments: list[Any]) -> bool:
    return any(_is_array(a) and a.ndim == 0 for a in arguments)


def _mixture(first: list[Any], second: list[Any], share: float, of_scalars: float) -> list[Any]:
    """Returns arguments whose first elements are those of the second ones, and whose scalars are
    between both."""
    mixed: list[Any] = []
    for a, b in zip(first, second, strict=True):
        if not _is_array(a) or not _is_array(b) or a.shape != b.shape:
            mixed.append(a)
            continue
        if np.ndim(a) == 0 and _is_number(a) and a.dtype != bool:
            a, b = np.asarray(a), np.asarray(b)
            mixed.append(_between_scalars(a, b, of_scalars).astype(a.dtype))
            continue
        array = np.array(a)
        count = round(share * array.size)
        array.reshape(-1)[:count] = np.reshape(b, -1)[:count]
        mixed.append(array)
    return mixed


def _between_scalars(a: Any, b: Any, share: float) -> Any:
    """Returns a number between two; in geometric proportion if they are of different magnitudes."""
    if share in (0, 1):
        return (a, b)[int(share)]
    first, second = float(a), float(b)
    low, high = sorted((abs(first), abs(second)))
    if first * second > 0 and high > GROWTH * low:
        return np.asarray(
            np.sign(first) * np.exp(np.log(abs(first)) * (1 - share) + np.log(abs(second)) * share)
        )
    return np.asarray(a * (1.0 - share) + b * share)


def _with_scalars(first: list[Any], second: list[Any]) -> Iterator[list[Any]]:
    """Yields the second arguments with the scalars of the first ones, and with one of them."""
    scalars = [k for k, each in enumerate(first) if _is_array(each) and each.size == 1]
    several = [scalars] if 1 < len(scalars) < len(first) else []
    for chosen in [*several, *([k] for k in scalars[:MOST_SCALARS])]:
        if len(first) > 1:
            yield [first[k] if k in chosen else each for k, each in enumerate(second)]


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic)


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

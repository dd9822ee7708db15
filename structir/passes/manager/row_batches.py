"""Finds inputs at which two programs differ, with one run for thousands of small inputs.

A rewrite that is wrong for few inputs often differs only where several conditions hold: for a leap
day, where all elements are negative, or where one operand is 0 and another one large. The functions
are mapped over a new axis of all parameters, so that a run compares as many inputs as the axis has
elements. Groups of rows have different distributions of values, each parameter its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from math import prod
from typing import Any

import attrs
import ml_dtypes
import numpy as np

from structir.batching.combinators import expanded
from structir.batching.functions import Batching
from structir.errors import StructIRError
from structir.interpret.arguments import random_values
from structir.ir.dtype import int_limits, is_float, is_int, numpy_dtype
from structir.ir.expr import Var
from structir.ir.module import IRModule
from structir.ir.struct_info import TensorStructInfo, TupleStructInfo
from structir.passes.manager.input_sample import InputSample, is_finite, outcome
from structir.passes.manager.input_sizes import Sizes
from structir.passes.manager.input_values import ArrayGenerator, InputValues
from structir.passes.manager.non_finite_tests import tests_non_finite
from structir.passes.manager.perturbation import leaves
from structir.passes.manager.samples import SMALL_SIZES, Sampler

MOST_ROWS = 1 << 13
LEAST_ROWS = 1 << 8
MOST_EXTENT = 1 << 17  # elements of all arguments of a run
MOST_VALUES = 1 << 22  # elements of all values of a run
MOST_SIZES = 4  # runs
LARGEST_SIZE = 256  # beyond a number that a rewritten program mentions
GROUPS = 64  # of rows
MOST_DIFFERENT = 5  # rows of a run that become samples
SEED = 7000
MULTIPLES = 64  # of a number that a program mentions
NEAR_ZERO = 20
DIFFERENT = 1e-4  # relative difference of an element that is compared more closely
SMALLEST = 1e-30
NAME = "batched_main"
OWN_SHARE = 0.4  # of the groups in which each parameter has its own distribution
ALIKE_SHARE = 0.1
NOT_FINITE_SHARE = 0.1
MIXED = "mixed"
INTEGER_SHARES = (0.2, 0.15, 0.2, 0.2, 0.1, 0.1, 0.05)
FLOATS = (
    *("mixed", "mixed", "mixed", "mixed", "mixed", "mixed"),
    *("signed", "signed", "numbers", "numbers", "ties", "integral", "zeros", "large", "small"),
    *("tiny", "fractions", "offset", "times", "scaled", "scaled_above", "scaled_negative"),
)
NOT_FINITE = ("non_finite", "infinite", "nan", "half_nan")
INTEGERS = (
    *("all", "few", "few", "numbers", "numbers", "multiples", "clusters", "extreme"),
    *("scales", "zeros", "equal"),
)

Array = Any


def different_rows(
    sampler: Sampler, other: IRModule, numbers: Sequence[float], bounds: Sequence[int]
) -> Iterator[InputSample]:
    """Yields samples at which a rewritten module seems to differ; sizes are small, or just beyond
    one of the `bounds`."""
    if sampler.start is None or sampler.loops or sampler.heavy or sampler.few:
        return
    not_finite = tests_non_finite(sampler.module, other)
    functions = [_batched(module, sampler.name) for module in (sampler.module, other)]
    if functions[0] is None or functions[1] is None:
        return
    for sizes in islice(_sizes(sampler, bounds), MOST_SIZES):
        arguments = _RowBatch(sampler, sizes, numbers, not_finite).arguments()
        if arguments is None:
            continue
        rows, batch = arguments
        results = [outcome(module, NAME, batch) for module in functions if module is not None]
        for row in _differing(results[0], results[1], rows):
            sample = sampler.run(sizes, _row_of(batch, row))
            if sample is not None:
                yield sample.widened(sampler.wide) if is_finite(sample) else sample


def _batched(module: IRModule, name: str) -> IRModule | None:
    """Returns a module with the function mapped over rows; None if it cannot be mapped, or only by
    a loop."""
    try:
        module = expanded(module)
        batching = Batching(module)
        batching.add(NAME, name, [True] * len(module.functions[name].params))  # type: ignore[attr-defined]
    except StructIRError:
        return None
    if batching.looped:
        return None
    return module.with_functions({**module.functions, **batching.generated})


def _sizes(sampler: Sampler, bounds: Sequence[int]) -> Iterator[Sizes]:
    """Yields sizes of short runs."""
    space = sampler.space
    firsts = {sym.name: first.name for sym, first in space.classes.items()}
    names = list(dict.fromkeys(firsts.values()))
    known: list[Sizes] = []
    for proposal in _proposals(sampler, names, bounds):
        sizes = space.completed({name: proposal[first] for name, first in firsts.items()})
        sizes = {**sizes, **{k: v for k, v in sampler.fixed.items() if k in sizes}}
        if sizes not in known and (not sizes or space.allows(sizes)):
            known.append(sizes)
            if space.computed(sizes) * LEAST_ROWS <= MOST_VALUES:
                yield sizes


def _proposals(sampler: Sampler, names: list[str], bounds: Sequence[int]) -> Iterator[Sizes]:
    assert sampler.start is not None
    different = {name: SMALL_SIZES[k % len(SMALL_SIZES)] for k, name in enumerate(names)}
    yield different
    yield dict.fromkeys(names, 1)
    for bound in [each for each in bounds if max(SMALL_SIZES) < each <= LARGEST_SIZE][:2]:
        for name in names[::-1]:
            yield {**dict.fromkeys(names, 1), name: bound + 2}
    yield dict.fromkeys(names, 2)
    yield {name: sampler.start[0].sizes[name] for name in names}


@attrs.define(eq=False)
class _RowBatch:
    """The rows of one run."""

    sampler: Sampler
    sizes: Sizes
    numbers: Sequence[float]
    not_finite: bool  # whether inputs have infinities and NaNs
    count: int = 0
    rng: Any = attrs.field(init=False)
    groups: list[InputValues] = attrs.field(factory=list, init=False)
    own: list[bool] = attrs.field(factory=list, init=False)
    drawn: int = 0  # parameters

    def arguments(self) -> tuple[int, list[Any]] | None:
        """Returns the number of rows, and the arguments with all rows; None if there are none."""
        space = self.sampler.space
        extent = max(space.elements(self.sizes), 1)
        most = min(MOST_EXTENT // extent, MOST_VALUES // max(space.computed(self.sizes), 1))
        self.count = min(most, MOST_ROWS) // GROUPS * GROUPS
        if self.count < LEAST_ROWS:
            return None
        assert self.sampler.start is not None
        values = self.sampler.start[1]
        self.rng = np.random.default_rng((values.seed, SEED, len(self.sizes)))
        values = self.sampler.at_sizes(
            attrs.evolve(values, numbers=tuple(self.numbers)), self.sizes
        )
        self.groups = [self._distribution(values) for _ in range(GROUPS)]
        self.own = (self.rng.random(GROUPS) < OWN_SHARE).tolist()
        try:
            arguments = random_values(
                space.params, values.seed, self.sizes, among=(1,), draw=self._draw
            )
        except StructIRError:
            return None
        return self.count, arguments

    def _distribution(self, values: InputValues) -> InputValues:
        rng, numbers = self.rng, [abs(n) for n in self.numbers if n] or [1.0]
        domain = str(rng.choice(FLOATS))
        if self.not_finite and rng.random() < NOT_FINITE_SHARE:
            domain = str(rng.choice(NOT_FINITE))
        power = 10.0 ** int(rng.integers(-4, 5))
        scale = power if domain in ("times", "large", "small") else float(rng.choice(numbers))
        return attrs.evolve(
            values,
            domain=domain,
            integers=str(rng.choice(INTEGERS)),
            scale=min(scale, 1.0) if domain == "large" else scale,
            seed=int(rng.integers(1 << 30)),
            alike=bool(rng.random() < ALIKE_SHARE),
        )

    def _draw(self, shape: tuple[int, ...], dtype: str, param: Var) -> Array:
        """Returns the rows of a parameter."""
        self.drawn += 1
        if not isinstance(param.struct_info, TensorStructInfo | TupleStructInfo):
            return ArrayGenerator(self.groups[0], {})(shape, dtype, param)
        if not shape and dtype != "bool":
            return self._mixed(self.rng, (self.count,), dtype, param)
        rows, parts = self.count // GROUPS, list[Array]()
        for group, own in zip(self.groups, self.own, strict=True):
            values = group
            if own and not group.alike:
                values = self._distribution(group)
            if values.domain == MIXED and dtype != "bool":
                rng = np.random.default_rng((values.seed, 0 if group.alike else self.drawn))
                parts.append(self._mixed(rng, (rows, *shape), dtype, param))
                continue
            generator = ArrayGenerator(values, {})
            generator.count = self.drawn
            array = np.array(generator((rows, *shape), dtype, param))
            parts.append(self._varied(array, dtype))
        return np.concatenate(parts)

    def _varied(self, array: Array, dtype: str) -> Array:
        """Returns rows of one scale, of one sign, or of equal elements each."""
        kind = int(self.rng.integers(10))
        if kind < 2 and array.size and array.ndim > 1:
            array = np.broadcast_to(
                array.reshape(len(array), -1)[:, :1], (len(array), prod(array.shape[1:]))
            ).reshape(array.shape)
        if not is_float(dtype):
            return array
        if kind in (2, 3):
            return np.abs(array)
        if kind == 4:
            return -np.abs(array)
        if kind in (5, 6):
            factors = 10.0 ** self.rng.uniform(-4, 4, (len(array), *[1] * (array.ndim - 1)))
            with np.errstate(all="ignore"):
                scaled = array.astype(np.float64) * factors
            return np.where(np.isfinite(array), _finite(scaled, dtype), array)
        return array

    def _mixed(self, rng: Any, shape: tuple[int, ...], dtype: str, param: Var) -> Array:
        """Returns elements near 0, of all magnitudes, at the numbers of the programs and at their
        multiples."""
        interval = self.groups[0].ranges.get(param.name, (0, 1))
        if is_int(dtype) and interval is not None:
            return rng.integers(*interval, shape, endpoint=True).astype(dtype)
        if is_int(dtype):
            integers = [int(n) for n in self.numbers if n == int(n)]
            return _mixed_integers(rng, dtype, integers, prod(shape)).reshape(shape)
        numbers = np.array(tuple(self.numbers) or (1.0,), np.float64)
        return _finite(_mixed_floats(rng, numbers, prod(shape)), dtype).reshape(shape)


def _row_of(values: Any, row: int) -> Any:
    if isinstance(values, list | tuple):
        return type(values)([_row_of(each, row) for each in values])
    return np.asarray(values[row]) if isinstance(values, np.ndarray) and values.ndim else values


def _differing(before: Any, after: Any, count: int) -> list[int]:
    """Returns the rows in which two results differ most; both have the rows in front."""
    if isinstance(before, StructIRError) or isinstance(after, StructIRError):
        return []
    distances = np.zeros((3, count))
    for a, b in zip(leaves(before), leaves(after), strict=False):
        if np.shape(a) == np.shape(b) and np.shape(a)[:1] == (count,) and np.size(a):
            each = _distances(np.asarray(a).reshape(count, -1), np.asarray(b).reshape(count, -1))
            distances = np.maximum(distances, each)
    rows: dict[int, None] = {}
    share = MOST_DIFFERENT // 2
    for distance in distances:
        order = np.argsort(-distance, kind="stable")[:share]
        rows |= dict.fromkeys(order[distance[order] > DIFFERENT].tolist())
    return list(rows)[:MOST_DIFFERENT]


def _distances(a: Array, b: Array) -> Array:
    """Returns for each row whether one result alone is finite, and the largest differences relative
    to the row and to the element."""
    if a.dtype.kind in "biuOSU":
        different = (a != b).any(axis=1).astype(np.float64)
        return np.stack([different, 0 * different, 0 * different])
    a, b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        finite = np.isfinite(a) & np.isfinite(b)
        differs = (a != b) & ~(np.isnan(a) & np.isnan(b))
        distance = np.where(finite, np.abs(a - b), 0.0)
        size = np.where(np.isfinite(a), np.abs(a), 0.0)
        largest = size.max(axis=1, keepdims=True)
        return np.stack(
            [
                (differs & ~finite).any(axis=1).astype(np.float64),
                (distance / (largest + SMALLEST)).max(axis=1),
                (distance / (size + SMALLEST)).max(axis=1),
            ]
        )


def _mixed_integers(rng: Any, dtype: str, numbers: list[int], count: int) -> Array:
    low, high = int_limits(dtype)
    known = np.array([n for n in numbers if 0 < abs(n) <= high] or [1], np.float64)
    number, near = rng.choice(known, count), rng.integers(-1, 2, count)
    sign = rng.choice((1, -1), count)
    kinds = [
        rng.integers(-NEAR_ZERO, 2 * NEAR_ZERO, count),
        rng.integers(-2, 3, count),
        sign * number + near,
        number * rng.integers(-2, MULTIPLES, count) + near * rng.integers(0, 2, count),
        sign * number * np.rint((high / np.abs(number)) ** rng.random(count)) + near,
        sign * np.rint(float(high) ** rng.random(count)),
        rng.choice((low, high), count),
    ]
    values = _chosen(rng, np.stack(kinds, dtype=np.float64), INTEGER_SHARES)
    with np.errstate(all="ignore"):
        whole = np.clip(values, -(2.0**63), np.nextafter(2.0**63, 0)).astype(np.int64)
    if high > np.iinfo(np.int64).max:
        return np.maximum(whole, 0).astype(numpy_dtype(dtype))
    return np.clip(whole, low, high).astype(numpy_dtype(dtype))


def _mixed_floats(rng: Any, numbers: Array, count: int) -> Array:
    exact = rng.choice((*numbers, 0.0, 0.0, 1.0, 2.0), count) * rng.choice((1, 1, -1), count)
    kinds = [
        exact,
        exact * (1 + rng.choice((1e-3, -1e-3, 1e-6, -1e-6), count)),
        rng.standard_normal(count) * 10 ** rng.uniform(-2, 3, count),
        rng.integers(-9, 10, count) / rng.choice((1, 2), count),
    ]
    return _chosen(rng, np.stack(kinds), None)


def _chosen(rng: Any, kinds: Array, shares: Sequence[float] | None) -> Array:
    among = rng.choice(len(kinds), kinds.shape[1:], p=shares)
    return np.take_along_axis(kinds, among[None], axis=0)[0]


def _finite(values: Array, dtype: str) -> Array:
    finfo: Any = ml_dtypes.finfo
    limit = float(finfo(numpy_dtype(dtype)).max)
    return np.clip(values, -limit, limit).astype(numpy_dtype(dtype))

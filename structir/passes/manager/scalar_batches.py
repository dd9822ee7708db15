"""Finds scalar inputs at which two programs differ, with one run for thousands of scalars.

A decision by several scalars, such as the month and the year of a leap day, has rare outcomes that
no search along one of them reaches. The functions are mapped over a new axis of their scalars, so
that a run compares as many combinations as the axis has elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from structir.batching.functions import Batching
from structir.errors import StructIRError
from structir.ir.dtype import int_limits, is_float, is_int, numpy_dtype
from structir.ir.expr import Var
from structir.ir.module import IRModule
from structir.ir.struct_info import TensorStructInfo
from structir.passes.manager.input_sample import InputSample, outcome
from structir.passes.manager.perturbation import leaves
from structir.passes.manager.samples import Sampler

ROWS = 1 << 13
MOST_EXTENT = 1 << 20  # elements of a batched argument, if all had the axis
MOST_DIFFERENT = 4  # rows that become samples
SEED = 7000
MULTIPLES = 64  # of a number that a program mentions
NEAR_ZERO = 20
DIFFERENT = 1e-6  # relative difference of a row that is compared more closely
NAME = "batched_main"

Array = Any


def scalar_rows(
    sampler: Sampler, other: IRModule, numbers: Sequence[float]
) -> Iterator[InputSample]:
    """Yields samples with scalars at which a rewritten module seems to differ."""
    if sampler.start is None or sampler.loops or sampler.heavy:
        return
    start, values = sampler.start
    params = sampler.function.params
    flags = [_is_scalar(param) for param in params]
    if not any(flags) or start.extent * ROWS > MOST_EXTENT:
        return
    rng = np.random.default_rng((values.seed, SEED))
    arguments = list(start.arguments)
    for k, param in enumerate(params):
        if flags[k]:
            arguments[k] = _scalars(rng, param, numbers, values.ranges)
    results = [
        _batched(module, sampler.name, flags, arguments) for module in (sampler.module, other)
    ]
    for row in _different_rows(*results):
        scalars = [
            np.asarray(a[row]) if flag else a for a, flag in zip(arguments, flags, strict=True)
        ]
        sample = sampler.run(start.sizes, scalars)
        if sample is not None:
            yield sample.widened(sampler.wide)


def _is_scalar(param: Var) -> bool:
    info = param.struct_info
    return isinstance(info, TensorStructInfo) and info.dims == () and info.dtype is not None


def _batched(module: IRModule, name: str, flags: list[bool], arguments: list[Any]) -> Any:
    """Returns the results for each row; None if a function cannot be mapped, or only by a loop."""
    batching = Batching(module)
    try:
        batching.add(NAME, name, flags)
        if batching.looped:
            return None
        mapped = module.with_functions({**module.functions, **batching.generated})
        return outcome(mapped, NAME, arguments)
    except StructIRError:
        return None


def _different_rows(before: Any, after: Any) -> list[int]:
    """Returns the first rows in which two results differ; both have the rows in front."""
    if before is None or isinstance(before, StructIRError):
        return []
    if after is None or isinstance(after, StructIRError):
        return []
    rows: dict[int, None] = {}
    for a, b in zip(leaves(before), leaves(after), strict=False):
        if np.shape(a) != np.shape(b) or np.shape(a)[:1] != (ROWS,):
            continue
        equal = _equal(np.asarray(a), np.asarray(b))
        different = np.flatnonzero(~equal.reshape(ROWS, -1).all(axis=1))
        rows |= dict.fromkeys(different[:: max(len(different) // MOST_DIFFERENT, 1)].tolist())
    return list(rows)[: 2 * MOST_DIFFERENT]


def _equal(a: Array, b: Array) -> Array:
    """Returns where two arrays are equal, up to rounding of floats; NaN equals NaN."""
    if a.dtype.kind in "biu":
        return np.asarray(a == b)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.abs(wide_a - wide_b) <= DIFFERENT * np.abs(wide_a)
    return near | (wide_a == wide_b) | (np.isnan(wide_a) & np.isnan(wide_b))


def _scalars(rng: Any, param: Var, numbers: Sequence[float], ranges: Mapping[str, Any]) -> Array:
    """Returns a value for each row: near 0, of all magnitudes, at the numbers of the programs and
    their multiples; each row is independent of those of other parameters."""
    dtype: str = param.struct_info.dtype  # type: ignore[attr-defined]
    interval = ranges.get(param.name, (0, 1))
    if dtype == "bool":
        return rng.random(ROWS) < 0.5
    if is_int(dtype) and interval is not None:
        return rng.integers(interval[0], interval[1], ROWS, endpoint=True).astype(dtype)
    if is_int(dtype):
        return _integer_scalars(rng, dtype, [int(n) for n in numbers if n == int(n)])
    assert is_float(dtype)
    return _float_scalars(rng, np.array(numbers or (1.0,), np.float64)).astype(numpy_dtype(dtype))


def _integer_scalars(rng: Any, dtype: str, numbers: list[int]) -> Array:
    low, high = int_limits(dtype)
    known = [number for number in numbers if 0 < abs(number) <= high] or [1]
    rows = []
    for kind in rng.integers(0, 6, ROWS).tolist():
        number = known[int(rng.integers(len(known)))]
        near, sign = int(rng.integers(-1, 2)), (1, -1)[int(rng.integers(2))]
        if kind < 2:
            row = int(rng.integers(-NEAR_ZERO, 2 * NEAR_ZERO))
        elif kind == 2:
            row = sign * number + near
        elif kind == 3:
            row = number * int(rng.integers(-2, MULTIPLES)) + near * int(rng.integers(2))
        elif kind == 4:  # a multiple of any magnitude
            row = sign * number * round(2 ** rng.uniform(0, np.log2(max(high // abs(number), 2))))
            row += near
        else:
            row = sign * round(2 ** rng.uniform(0, np.log2(float(high))))
        rows.append(min(max(row, low), high))
    return np.array(rows, numpy_dtype(dtype))


def _float_scalars(rng: Any, numbers: Array) -> Array:
    exact = rng.choice((*numbers, 1.0, 2.0), ROWS) * rng.choice((1, 1, -1), ROWS)
    near = exact * (1 + rng.choice((1e-3, -1e-3, 1e-6, -1e-6), ROWS))
    ordinary = rng.standard_normal(ROWS) * 10 ** rng.uniform(-2, 3, ROWS)
    integral = rng.integers(-9, 10, ROWS) / rng.choice((1, 2), ROWS)
    kinds = np.stack([exact, near, ordinary, integral])
    return np.take_along_axis(kinds, rng.integers(0, len(kinds), (1, ROWS)), axis=0)[0]

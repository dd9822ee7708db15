"""Generates arrays in general position: distinct values of both signs, at different scales."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any
from zlib import crc32

import attrs
import ml_dtypes
import numpy as np

from structir.ir.dtype import int_limits, is_float, numpy_dtype
from structir.ir.expr import Var
from structir.ir.struct_info import TensorStructInfo

Array = Any  # a NumPy array of any dtype, bfloat16 among them
Range = tuple[int, int] | None  # the least integer and the greatest; None: all of the dtype

LARGE = 1 << 16  # elements of a weight: the domains apply to smaller arrays only
PERIOD = 65_537  # elements after which the values of a weight repeat: a prime
SCALES = (1.0, 0.6, 1.7, 0.8, 1.3)
INTEGRAL_SCALES = (3, 40, 340)
DOMAINS = ("signed", "positive", "fractions", "above_one")
EXTREMES = (np.inf, -np.inf, np.nan, 0.0, -0.0)
NARROW: Range = (0, 1)
SCALAR: Range = (-9, 9)  # of the trip count of a loop, and of half of the other scalar integers
FEW: Range = (-2, 3)
MOST_TRIPS = 64
CLUSTERS = (0, 1 << 7, 1 << 11, 1 << 15, 1 << 24, 1 << 31, 1 << 53)  # and the negative ones
SCALE_COUNT = 64
EQUAL_COUNT = 8
MULTIPLES = 16  # of each integer that a program mentions
TINY = 1e-6
OFFSET = 300.0
DEFAULT_DTYPE = "float32"  # of tensors of unknown dtype


@attrs.frozen
class InputValues:
    """The distribution of inputs: a domain for floats, and integer ranges by parameter.

    `special` is a parameter with another domain than the others. `integers` is the distribution of
    integers whose range is that of their dtype: one of `INTEGERS`. `sentinels` are integers outside
    of the range of a parameter, such as an index that the program ignores.
    """

    domain: str = "signed"
    special: tuple[str, str] = ("", "")  # the name of the parameter, and its domain
    ranges: Mapping[str, Range] = attrs.Factory(dict)
    sentinels: Mapping[str, tuple[int, ...]] = attrs.Factory(dict)
    seed: int = 0
    integers: str = "all"
    numbers: tuple[float, ...] = ()  # of the program: floats of the domain "numbers", and integers
    scale: float = 1.0  # of the domains `SCALED`
    dtype: str = DEFAULT_DTYPE  # of tensors of unknown dtype
    loops: bool = False  # whether a scalar integer may be the trip count of a loop
    most_steps: int = 0  # of a run, in which scalar integers may be large nevertheless; 0: all
    rows: tuple[
        int, ...
    ] = ()  # the sizes of row variables and unknown axes; few small ones if empty
    alike: bool = False  # whether parameters of one shape and dtype have equal values


class ArrayGenerator:
    """A generator of the arrays of one set of arguments; large ones are shared between sets."""

    def __init__(self, values: InputValues, large: dict[Any, Array]) -> None:
        self.values = values
        self.large = large
        self.count = 0

    def __call__(self, shape: tuple[int, ...], dtype: str, param: Var) -> Array:
        """Returns an array for a parameter."""
        self.count += 1
        values = self.values
        if isinstance(param.struct_info, TensorStructInfo) and param.struct_info.dtype is None:
            dtype = values.dtype
        number = 0 if values.alike else self.count
        if is_float(dtype):
            rng = np.random.default_rng((values.seed, number))
            if math.prod(shape) > LARGE:
                key = self.count, shape, dtype
                if key not in self.large:
                    self.large[key] = _weight(rng, shape, dtype, SCALES[self.count % len(SCALES)])
                return self.large[key]
            name, domain = values.special
            domain = domain if name == param.name else values.domain
            return self._floats(domain, rng, shape, dtype)
        salt = crc32(f"{values.domain} {values.integers}".encode())
        rng = np.random.default_rng((values.seed, number, salt))
        if dtype == "bool":
            return rng.random(shape) < BOOLS.get(values.integers, 0.5)
        interval = values.ranges.get(param.name, NARROW)
        if interval is None and values.integers in INTEGERS:
            return _chosen_integers(rng, shape, dtype, values)
        is_scalar = interval is None and not shape and (values.loops or rng.integers(2))
        array = _integers(rng, shape, dtype, SCALAR if is_scalar else interval)
        if sentinels := values.sentinels.get(param.name):  # in a quarter of the elements
            chosen = rng.permutation(array.size)[: (array.size + 2) // 4]
            array.reshape(-1)[chosen] = np.resize(sentinels[::-1], len(chosen))
        return array

    def _floats(self, domain: str, rng: Any, shape: tuple[int, ...], dtype: str) -> Array:
        values = self.values
        if domain == "numbers":
            return _near_numbers(rng, shape, dtype, values.numbers)
        scale = 1.0 if values.alike else SCALES[self.count % len(SCALES)]
        if domain in WITH_SCALE:
            scale = values.scale
        return FLOATS[domain](rng, shape, dtype, scale)


def _signed(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Returns mostly normally distributed values, some integers, halves, small and large ones."""
    wide = np.float64 if dtype == "float64" else np.float32
    array = rng.standard_normal(shape, wide)
    array *= wide(scale / _fan(shape))
    flat = array.reshape(-1)
    start = int(rng.integers(7))
    flat[start + 1 :: 7] = np.rint(flat[start + 1 :: 7] * 5) / 2
    flat[start + 3 :: 13] *= 1e-3
    flat[start + 5 :: 11] *= 6
    if dtype == "float64":  # a cast to float32 rounds these to an integer
        flat[start::17] = np.rint(flat[start::17] * 5) - 1e-9
    return array.astype(numpy_dtype(dtype), copy=False)


def _weight(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Returns a large array of signed values, which repeat after a prime number of elements."""
    values = _signed(rng, (PERIOD,), dtype, scale / _fan(shape))
    return np.resize(values, shape)


def _fan(shape: tuple[int, ...]) -> float:
    """Returns a scale that keeps sums over a long axis of a weight near 1."""
    return float(max(shape[-2] / 4, 1)) ** 0.5 if len(shape) > 1 else 1.0


def _positive(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    array = np.abs(_signed(rng, shape, "float32", scale)) + np.float32(0.01)
    return array.astype(numpy_dtype(dtype))


def _fractions(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    return rng.uniform(0.02, 0.98, shape).astype(numpy_dtype(dtype))


def _above_one(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    return (1 + _positive(rng, shape, "float32", scale)).astype(numpy_dtype(dtype))


def _large(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Returns values of both signs, from five to 100,000: beyond the domain of an exponential."""
    size = 10 ** rng.uniform(0.7, 5, shape) * scale
    limit = float(_finfo(dtype).max) / 4
    return np.clip(size * rng.choice((-1, 1), shape), -limit, limit).astype(numpy_dtype(dtype))


def _non_finite(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Returns mostly ordinary values; some infinities, NaNs, zeros and values near the maximum."""
    array = np.array(_signed(rng, shape, dtype, scale))
    flat = array.reshape(-1)
    limit = float(_finfo(dtype).max) * 0.6
    extremes = np.array([*EXTREMES, limit, -limit])
    indices = rng.permutation(flat.size)[: min(len(extremes), max(flat.size // 3, 1))]
    with np.errstate(all="ignore"):
        flat[indices] = rng.permutation(extremes)[: len(indices)].astype(numpy_dtype(dtype))
    return array


def _small(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Returns values of both signs from 1 down to a millionth."""
    size = 10 ** rng.uniform(-6, 0, shape) * scale
    return (size * rng.choice((-1, 1), shape)).astype(numpy_dtype(dtype))


def _integral(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Returns small integers of both signs, whose sums and products are exact."""
    return rng.integers(-4, 4, shape, endpoint=True).astype(numpy_dtype(dtype))


def _integral_scales(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Returns integers of both signs and one of several magnitudes, which are exact in float32."""
    most = rng.choice(INTEGRAL_SCALES)
    return np.rint(rng.uniform(-1, 1, shape) * most).astype(numpy_dtype(dtype))


def _one_nan(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    return _with_few(rng, _signed(rng, shape, dtype, scale), (np.nan,))


def _one_infinite(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    return _with_few(rng, _signed(rng, shape, dtype, scale), (np.inf,))


def _all_nan(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    return np.full(shape, np.nan).astype(numpy_dtype(dtype))


def _half_nan(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Returns ordinary values, and as many NaNs."""
    array = np.array(_signed(rng, shape, dtype, scale))
    array[rng.random(shape) < 0.5] = np.nan
    return array


def _symmetric(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Returns symmetric matrices of small integers where the last two sizes are equal."""
    return _mirrored(_integral(rng, shape, dtype, scale))


def _mirrored(array: Array) -> Array:
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        return array
    return np.tril(array) + np.swapaxes(np.tril(array, -1), -1, -2)


def _identity(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Returns rows of the identity matrix, shifted by a random number."""
    if len(shape) < 2:
        return _integral(rng, shape, dtype, scale)
    rows = np.roll(np.eye(shape[-2], shape[-1]), rng.integers(max(shape[-1], 1)), axis=-1)
    return np.broadcast_to(rows, shape).astype(numpy_dtype(dtype))


def _negative(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    return (-_positive(rng, shape, "float32", scale)).astype(numpy_dtype(dtype))


def _tiny(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    return (_signed(rng, shape, "float32", scale) * np.float32(TINY)).astype(numpy_dtype(dtype))


def _scaled(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Returns values of both signs, of which the largest is just below the scale."""
    array = rng.uniform(-0.95, 0.95, shape) * scale
    if array.size > 1:
        array.reshape(-1)[:1] = 0.96 * scale
    return _finite(array, dtype)


def _scaled_positive(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Returns positive values below the scale, mostly well below."""
    return _finite(rng.uniform(0.02, 0.98, shape) ** 2 * scale, dtype)


def _scaled_negative(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Returns negative values on both sides of the negative scale."""
    return _finite(-rng.uniform(0.05, 2, shape) * scale, dtype)


def _scaled_above(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Returns positive values just above the scale."""
    return _finite(rng.uniform(1.01, 1.25, shape) * scale, dtype)


def _ties(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Returns few different values, so that many elements are equal."""
    return rng.choice((-1.0, 0.0, 0.5, 1.0), shape).astype(numpy_dtype(dtype))


def _constant(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Returns equal elements."""
    return np.full(shape, 1.5 * scale).astype(numpy_dtype(dtype))


def _zeros(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Returns zeros of both signs."""
    array = np.zeros(shape)
    array.reshape(-1)[1::2] = -0.0
    return array.astype(numpy_dtype(dtype))


def _times(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Returns ordinary values times the scale."""
    return _finite(_signed(rng, shape, "float64", scale), dtype)


def _ascending(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Returns values in ascending order."""
    values = np.sort(_signed(rng, shape, "float64", scale).reshape(-1))
    return values.reshape(shape).astype(numpy_dtype(dtype))


def _descending(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Returns values in descending order."""
    return np.array(_ascending(rng, shape, dtype, scale).reshape(-1)[::-1]).reshape(shape)


def _offset(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Returns values that differ little from one another, whose differences cancel."""
    return (OFFSET + 0.1 * _signed(rng, shape, "float64", scale)).astype(numpy_dtype(dtype))


def _definite(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Returns symmetric positive definite matrices where the last two sizes are equal."""
    array = _signed(rng, shape, "float64", 0.1)
    if len(shape) > 1 and shape[-1] == shape[-2]:
        array = array + np.swapaxes(array, -1, -2) + 2 * shape[-1] * np.eye(shape[-1])
    return array.astype(numpy_dtype(dtype))


def _near_numbers(
    rng: Any, shape: tuple[int, ...], dtype: str, numbers: tuple[float, ...]
) -> Array:
    """Returns numbers of the program with both signs, exact and nearby, and values whose product
    or quotient with a number is halfway between integers."""
    array = np.array(_signed(rng, shape, "float64", 1.0))
    flat = array.reshape(-1)
    if numbers and flat.size:
        chosen = rng.choice(np.array(numbers, np.float64), flat[::2].shape)
        chosen = chosen * rng.choice((1, 1, -1), chosen.shape)
        flat[::2] = chosen * (1 + rng.choice((0, 0, 1e-3, -1e-3, 1e-6, -1e-6), chosen.shape))
        halves = rng.integers(-5, 5, flat[1::2].shape) + 0.5
        factors = rng.choice(np.array(numbers, np.float64), halves.shape)
        divisors = np.where(factors == 0, 1.0, factors)
        flat[1::2] = np.where(rng.random(halves.shape) < 0.5, halves / divisors, halves * divisors)
    return _finite(array, dtype)


def _finite(array: Array, dtype: str) -> Array:
    limit = float(_finfo(dtype).max)
    return np.clip(array, -limit, limit).astype(numpy_dtype(dtype))


def _infinite(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Returns ordinary values, and two infinities: most sums contain at most one."""
    return _with_few(rng, _signed(rng, shape, dtype, scale), (np.inf, -np.inf))


def _nan(rng: Any, shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Returns ordinary values, and two NaNs."""
    return _with_few(rng, _signed(rng, shape, dtype, scale), (np.nan, np.nan))


def _with_few(rng: Any, values: Array, special: tuple[float, ...]) -> Array:
    array = np.array(values)
    flat = array.reshape(-1)
    count = len(special) if flat.size > len(special) else 1
    indices = rng.permutation(flat.size)[:count]
    flat[indices] = np.array(special[: len(indices)], array.dtype)
    return array


def _finfo(dtype: str) -> Any:
    finfo: Any = ml_dtypes.finfo
    return finfo(numpy_dtype(dtype))


FLOATS = {
    "signed": _signed,
    "positive": _positive,
    "fractions": _fractions,
    "above_one": _above_one,
    "large": _large,
    "non_finite": _non_finite,
    "small": _small,
    "integral": _integral,
    "integral_scales": _integral_scales,
    "one_nan": _one_nan,
    "one_infinite": _one_infinite,
    "all_nan": _all_nan,
    "half_nan": _half_nan,
    "symmetric": _symmetric,
    "identity": _identity,
    "infinite": _infinite,
    "nan": _nan,
    "negative": _negative,
    "tiny": _tiny,
    "scaled": _scaled,
    "scaled_negative": _scaled_negative,
    "scaled_positive": _scaled_positive,
    "scaled_above": _scaled_above,
    "times": _times,
    "ties": _ties,
    "offset": _offset,
    "ascending": _ascending,
    "descending": _descending,
    "definite": _definite,
    "constant": _constant,
    "zeros": _zeros,
}
SCALED = ("scaled", "scaled_negative", "scaled_above")  # by a number of the program
WITH_SCALE = (*SCALED, "scaled_positive", "times")


def _integers(rng: Any, shape: tuple[int, ...], dtype: str, interval: Range) -> Array:
    """Returns integers of a range, with its bounds; for a whole dtype, also values near 0."""
    low, high = int_limits(dtype)
    if interval is not None:
        low, high = (min(max(low, bound), high) for bound in interval)
    kind = np.uint64 if high > np.iinfo(np.int64).max else np.int64
    array = rng.integers(low, high, shape, kind, endpoint=True)
    flat = array.reshape(-1)
    if interval is None:
        near = max(low, -9), min(high, 9)
        flat[1::3] = rng.integers(*near, flat[1::3].shape, kind, endpoint=True)
    chosen = rng.permutation(flat.size) if flat.size <= LARGE else rng.choice(flat.size, 2, False)
    ends = chosen[: 2 if flat.size > 1 or rng.integers(3) == 0 else 0]
    flat[ends] = rng.permutation(np.array([low, high], kind))[: ends.size]
    return array.astype(numpy_dtype(dtype))


def _chosen_integers(rng: Any, shape: tuple[int, ...], dtype: str, values: InputValues) -> Array:
    """Returns integers of a distribution, each representable in the dtype."""
    low, high = int_limits(dtype)
    if not shape and values.loops:
        low, high = max(low, -MOST_TRIPS), min(high, MOST_TRIPS)
    numbers = INTEGERS[values.integers](rng, values, (low, high))
    among = [number for number in numbers if low <= number <= high]
    if not shape and among:  # one after the other
        among = [among[values.seed % len(among)]]
    kind = np.uint64 if high > np.iinfo(np.int64).max else np.int64
    array = rng.choice(np.array(among or [0], kind), shape).astype(numpy_dtype(dtype))
    return ORDERS[values.integers](array) if values.integers in ORDERS and shape else array


def _few(rng: Any, values: InputValues, limits: tuple[int, int]) -> Iterable[int]:
    """Returns few integers, so that many elements are equal and most index a short axis."""
    return range(FEW[0], FEW[1] + 1) if FEW else ()


def _clusters(rng: Any, values: InputValues, limits: tuple[int, int]) -> Iterable[int]:
    """Returns neighbours of large powers of two, which narrower dtypes do not distinguish."""
    clusters = [
        [n for n in range(sign * center - 1, sign * center + 3) if limits[0] <= n <= limits[1]]
        for center in CLUSTERS
        for sign in (1, -1)
    ]
    largest = [cluster for cluster in clusters if len(cluster) > 1][-4:]
    return [n for k in rng.permutation(len(largest))[:2] for n in largest[k]]


def _extreme(rng: Any, values: InputValues, limits: tuple[int, int]) -> Iterable[int]:
    """Returns the least or the greatest integer, whose sums overflow."""
    return (int(rng.choice(np.array(limits, object))),)


def _mentioned(rng: Any, values: InputValues, limits: tuple[int, int]) -> Iterable[int]:
    """Returns the integers that the program mentions, and their neighbours."""
    numbers = [int(number) for number in values.numbers if number == int(number)]
    near = [number + step for number in numbers for step in (1, 0, -1)]
    return [*near, *near, *[-number for number in near], 0, 1, -1]


def _equal(rng: Any, values: InputValues, limits: tuple[int, int]) -> Iterable[int]:
    """Returns one small integer, the next one for the next seed."""
    return (values.seed % EQUAL_COUNT,)


def _only_zero(rng: Any, values: InputValues, limits: tuple[int, int]) -> Iterable[int]:
    return (0,)


def _increasing(array: Array) -> Array:
    return np.sort(array.reshape(-1)).reshape(array.shape)


def _decreasing(array: Array) -> Array:
    return np.array(np.sort(array.reshape(-1))[::-1]).reshape(array.shape)


def _scales(rng: Any, values: InputValues, limits: tuple[int, int]) -> Iterable[int]:
    """Returns integers of both signs and of all magnitudes."""
    exponents = rng.uniform(0, np.log2(float(limits[1])), SCALE_COUNT)
    return [int(sign * 2**exponent) for exponent in exponents for sign in (1, -1)]


def _multiples(rng: Any, values: InputValues, limits: tuple[int, int]) -> Iterable[int]:
    """Returns multiples of the integers that the program mentions, of all magnitudes, and their
    neighbours."""
    numbers = [abs(int(n)) for n in values.numbers if n == int(n) and 1 < abs(n) <= limits[1]]
    for number in numbers:
        factors = 2 ** rng.uniform(0, np.log2(max(limits[1] // number, 2)), MULTIPLES)
        for factor, step in zip(factors.tolist(), rng.integers(-1, 2, MULTIPLES), strict=True):
            yield number * round(factor) + int(step)
            yield -number * round(factor) - int(step)


def _near_zero(rng: Any, values: InputValues, limits: tuple[int, int]) -> Iterable[int]:
    return range(-20, 20)


ORDERS = {"ascending": _increasing, "descending": _decreasing, "symmetric": _mirrored}
INTEGERS = {
    "scales": _scales,
    "ascending": _near_zero,
    "descending": _near_zero,
    "symmetric": _near_zero,
    "few": _few,
    "clusters": _clusters,
    "extreme": _extreme,
    "numbers": _mentioned,
    "multiples": _multiples,
    "zeros": _only_zero,
    "equal": _equal,
}
BOOLS = {"few": 0.15, "clusters": 0.85, "extreme": 1.0, "zeros": 0.0}  # the share of True

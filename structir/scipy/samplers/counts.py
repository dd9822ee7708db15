"""Samples of counts: the Poisson, binomial and multinomial distributions.

Sources: Knuth, TAOCP vol. 2; Hoermann, "The transformed rejection method for generating Poisson
random variables", 1993, and "The generation of binomial random variates", 1993.
"""

from __future__ import annotations

from typing import Any

from structir.lax.primitives import lgamma
from structir.numpy import creation, elementwise, indexing, reals, reductions, shaping
from structir.random.distributions import uniform
from structir.random.keys import split
from structir.random.transformed import parameters_of, sizes_of
from structir.tracing.array import TracedArray, cast, numpy_name, operand
from structir.tracing.context import traced
from structir.transforms.control import scan, while_loop

MANY = 2**31 - 1  # attempts
KNUTH_LIMIT = 10.0  # of the mean, below which uniform samples are multiplied
# log k! minus Stirling's formula, for k below 10.
STIRLING_TAIL = (
    *(0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509),
    *(0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720),
    *(0.00925546218271273, 0.00833056343336287),
)


@traced
def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = "int32") -> TracedArray:
    """Returns samples of the Poisson distribution."""
    (mean,) = parameters_of(lam)
    mean = shaping.broadcast_to(mean, sizes_of(shape, mean))
    is_small = elementwise.isnan(mean) | (mean < KNUTH_LIMIT)
    small = _multiplied(key, elementwise.where(is_small, mean, 0.0))
    large = _rejected(key, elementwise.where(is_small, 1e5, mean))
    result = elementwise.where(is_small, small, cast(large, "int32"))
    return cast(elementwise.where(mean == 0, 0, result), numpy_name(dtype))


def _multiplied(key: Any, mean: TracedArray) -> TracedArray:
    def step(state: Any) -> Any:
        k, key, total = state
        key, subkey = split(key)
        k = elementwise.where(total > -mean, k + 1, k)
        return k, key, total + reals.log(uniform(subkey, mean.shape))

    start = creation.zeros(mean.shape, "int32"), operand(key), creation.zeros_like(mean)
    counts: TracedArray = while_loop(lambda s: reductions.any(s[2] > -mean), step, start)[0]
    return counts - 1


def _rejected(key: Any, mean: TracedArray) -> TracedArray:
    b = 0.931 + 2.53 * reals.sqrt(mean)
    a = -0.059 + 0.02483 * b
    inverse, limit = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2)

    def attempt(u: TracedArray, v: TracedArray) -> tuple[TracedArray, TracedArray]:
        near = 0.5 - elementwise.abs(u)
        k = reals.floor((2 * a / near + b) * u + mean + 0.43)
        s = reals.log(v * inverse / (a / (near * near) + b))
        t = -mean + k * reals.log(mean) - lgamma(k + 1)
        is_outside = (k < 0) | ((near < 0.013) & (v > near))
        return k, ((near >= 0.07) & (v <= limit)) | (~is_outside & (s <= t))

    return _until_accepted(key, mean, attempt)


def _until_accepted(key: Any, like: TracedArray, attempt: Any) -> TracedArray:
    """Returns the last accepted value of each element, when all have one."""

    def step(state: Any) -> Any:
        value, accepted, key = state
        key, first, second = split(key, 3)
        u, v = uniform(first, like.shape) - 0.5, uniform(second, like.shape)
        k, is_accepted = attempt(u, v)
        return elementwise.where(is_accepted, k, value), accepted | is_accepted, key

    start = creation.full_like(like, -1.0), creation.zeros(like.shape, bool), operand(key)
    return while_loop(lambda s: ~reductions.all(s[1]), step, start)[0]


@traced
def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = "float32") -> TracedArray:
    """Returns samples of the binomial distribution, as floats; NaN for a negative n or p."""
    count, share = parameters_of(n, p)
    sizes = sizes_of(shape, count, share)
    count, share = (shaping.broadcast_to(x, sizes) for x in (count, share))
    is_low = share < 0.5
    q = elementwise.where(is_low, share, 1 - share)
    is_invalid = elementwise.isnan(q) | (q < 0)
    is_no_count = elementwise.isnan(count) | (count < 0)
    q = elementwise.where(is_invalid, 0.01, q)
    is_inverted = is_no_count | (count * q <= 10.0)
    whole = reals.floor(count)
    few = _inverted(key, elementwise.where(is_inverted, whole, 0.0), q)
    large, wide = (
        elementwise.where(is_inverted, other, x) for other, x in ((1e4, whole), (0.5, q))
    )
    samples = elementwise.where(is_inverted, few, _transformed(key, large, wide))
    is_invalid = is_invalid | is_no_count
    samples = elementwise.where(is_invalid, float("nan"), samples)
    is_infinite = elementwise.isinf(count)
    samples = elementwise.where(is_infinite & ~is_invalid, float("inf"), samples)
    is_plain = is_low | is_no_count | elementwise.isnan(share) | is_infinite
    return cast(elementwise.where(is_plain, samples, whole - samples), numpy_name(dtype))


def _inverted(key: Any, count: TracedArray, share: TracedArray) -> TracedArray:
    """Returns the number of geometric samples whose sum is at most the count."""
    logarithm = reals.log1p(-share)

    def step(state: Any) -> Any:
        number, total, key = state
        subkey, key = split(key)
        number = elementwise.where(total <= count, number + 1, number)
        return number, total + reals.ceil(reals.log(uniform(subkey, share.shape)) / logarithm), key

    start = creation.zeros_like(share), creation.zeros_like(share), operand(key)
    number: TracedArray = while_loop(lambda s: reductions.any(s[1] <= count), step, start)[0]
    return number - 1


def _transformed(key: Any, count: TracedArray, share: TracedArray) -> TracedArray:
    deviation = reals.sqrt(count * share * (1 - share))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * share
    c, limit, ratio = count * share + 0.5, 0.92 - 4.2 / b, share / (1 - share)
    alpha, m = (2.83 + 5.1 / b) * deviation, reals.floor((count + 1) * share)

    def attempt(u: TracedArray, v: TracedArray) -> tuple[TracedArray, TracedArray]:
        near = 0.5 - elementwise.abs(u)
        k = reals.floor((2 * a / near + b) * u + c)
        is_outside = (k < 0) | (k > count)
        log = reals.log
        bound = (m + 0.5) * log((m + 1) / (ratio * (count - m + 1)))
        bound = bound + (count + 1) * log((count - m + 1) / (count - k + 1))
        bound = bound + (k + 0.5) * log(ratio * (count - k + 1) / (k + 1))
        bound = bound + _stirling_tail(m) + _stirling_tail(count - m)
        bound = bound - _stirling_tail(k) - _stirling_tail(count - k)
        is_below = log(v * alpha / (a / (near * near) + b)) <= bound
        return k, ((near >= 0.07) & (v <= limit)) | (~is_outside & is_below)

    return _until_accepted(key, share, attempt)


def _stirling_tail(k: TracedArray) -> TracedArray:
    is_small = k <= 9
    inside = elementwise.clip(k, 0.0, 9.0)
    squared = (inside + 1) * (inside + 1)
    series = (1 / 12 - (1 / 360 - 1 / 1260 / squared) / squared) / (inside + 1)
    table = cast(operand(list(STIRLING_TAIL)), "float32")
    known = indexing.take(table, cast(reals.floor(inside), "int32"), 0)
    return elementwise.where(is_small, known, series)


@traced
def multinomial(
    key: Any, n: Any, p: Any, *, shape: Any = None, dtype: Any = "float32", unroll: Any = 1
) -> TracedArray:
    """Returns counts of n trials with the probabilities along the last axis of p, as floats."""
    count, shares = parameters_of(n, p)
    sizes = shares.shape if shape is None else tuple(shape)
    count = shaping.broadcast_to(count, sizes[:-1])
    moved = shaping.moveaxis(shaping.broadcast_to(shares, sizes), -1, 0)
    remaining = shaping.flip(reductions.cumsum(shaping.flip(moved, 0), 0), 0)
    ratios = moved / elementwise.where(remaining == 0, 1.0, remaining)

    def step(rest: Any, element: Any) -> Any:
        ratio, subkey = element
        drawn = binomial(subkey, rest, elementwise.clip(ratio, 0.0, 1.0))
        return rest - drawn, drawn

    _, counts = scan(step, count, (ratios, split(key, ratios.shape[0])))
    return cast(shaping.moveaxis(counts, 0, -1), numpy_name(dtype))

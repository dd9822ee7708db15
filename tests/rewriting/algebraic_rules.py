"""Sixty rewrite rules of the kind that XLA's algebraic simplifier documents, and ten wrong ones.

`RULES` has the rules by name, and `WRONG_RULES` rules with a wrong side condition. `PROGRAMS` has
for each of both a program where the rule fires: of symbolic sizes, and of any rank (`*s`) where the
ops allow it. The rules are not registered as passes. Those over floats hold for real numbers; the
ones in `REAL_NUMBERS_ONLY` overflow elsewhere than the original, or treat NaN differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from structir.analysis.axes import axes_of
from structir.ir.axes import RowVar, size_in
from structir.ir.dims import Poly, at_least, equal
from structir.ir.dtype import is_float, is_int
from structir.ir.expr import Constant, Expr
from structir.ir.op import Op
from structir.opdef.attributes import Axes, Axis, DType, Ints, Number, Sizes
from structir.ops import broadcast as b
from structir.ops.contract import matmul
from structir.ops.conv import conv2d
from structir.ops.create import arange, eye, ones_like, zeros_like
from structir.ops.elementwise import (
    abs_,
    astype,
    clip,
    exp,
    log,
    logical_not,
    negative,
    rsqrt,
    sqrt,
)
from structir.ops.indexing import take
from structir.ops.joined import concat, pad
from structir.ops.layout import broadcast_to, expand_dims, flip, permute_dims, squeeze
from structir.ops.reduce import max_, sum_
from structir.ops.reshape import reshape
from structir.ops.scatter import slice_scatter
from structir.ops.shapes import dynamic_strided_slice
from structir.ops.slices import strided_slice
from structir.rewriting.guards import (
    acts_element_wise,
    dims_of,
    dtype_of,
    rank_of,
    same_sizes,
    value_of,
)
from structir.rewriting.rule import RULES as REGISTERED
from structir.rewriting.rule import Rule, rewrite

RULES: dict[str, Rule] = {}
WRONG_RULES: dict[str, Rule] = {}
PROGRAMS: dict[str, str] = {}
REAL_NUMBERS_ONLY: set[str] = set()

Rewrite = Iterator[Expr]


def program(result: str, params: str) -> str:
    """Returns the source of a function: `program("R.exp(x)", "x: *s n")`.

    A parameter is a float32 tensor unless its axes end in a dtype, as in `i: n int32`.
    """
    annotations = []
    for param in params.split(";"):
        name, axes = param.split(":")
        words = axes.split()
        is_typed = bool(words) and words[-1] in ("int32", "int64", "bool", "float64")
        dtype = words.pop() if is_typed else "float32"
        sizes = "".join(f"{word}, " if word.isdigit() else f'"{word}", ' for word in words)
        annotations.append(f'{name.strip()}: R.Tensor(({sizes}), "{dtype}")')
    lines = ["@R.function", f"def main({', '.join(annotations)}):", "    with R.dataflow():"]
    lines += [f"        result = {result}", "        R.output(result)", "    return result"]
    return "\n".join(lines) + "\n"


def rule(
    result: str, params: str, *, wrong: bool = False, floats: bool = True
) -> Callable[[Any], Rule]:
    """Declares a rule, and the program where it fires; with `wrong` among the wrong rules.

    Without `floats` it is exact for real numbers only.
    """

    def declare(generator: Any) -> Rule:
        name = generator.__name__
        registered = {name: REGISTERED[name]} if name in REGISTERED else {}
        declared = rewrite(generator)
        REGISTERED.pop(name)
        REGISTERED.update(registered)
        (WRONG_RULES if wrong else RULES)[declared.name] = declared
        PROGRAMS[declared.name] = program(result, params)
        if not floats:
            REAL_NUMBERS_ONLY.add(declared.name)
        return declared

    return declare


# Guards that the rules share


def info_of(value: Any) -> Any:
    return value.struct_info


def is_floating(value: Expr) -> bool:
    return is_float(dtype_of(value) or "bool")


def is_integer(value: Expr) -> bool:
    return is_int(dtype_of(value) or "bool")


def size_along(value: Expr, axis: int) -> Any:
    """Returns the size of an axis, also of a tensor of unknown rank; None where unknown."""
    axes = axes_of(info_of(value))
    if axes is None or not -len(axes) <= axis < len(axes):
        return None
    between = axes[: axis + 1] if axis >= 0 else axes[axis:]
    size = None if any(isinstance(each, RowVar) for each in between) else size_in(axes[axis])
    return size if isinstance(size, int | Poly) else None


def has_size(value: Expr, axis: int, size: Any) -> bool:
    known = size_along(value, axis)
    return known is not None and equal(known, size) is True


def same_axes(first: Expr, second: Expr) -> bool:
    """Returns whether tensors, of any rank, provably have equal axes."""
    one, two = axes_of(info_of(first)), axes_of(info_of(second))
    return one is not None and one == two


def at_most(low: Any, high: Any) -> bool:
    return at_least(high, low) is True


def within(axes: Any, rank: int | None) -> list[int]:
    """Returns axes as numbers from zero; all axes for None."""
    assert rank is not None
    if axes is None:
        return list(range(rank))
    return [axis % rank for axis in ((axes,) if isinstance(axes, int) else axes)]


def swaps_last_two(axes: Any) -> bool:
    """Returns whether a permutation swaps the last two axes alone."""
    rank = len(axes)
    return rank >= 2 and [a % rank for a in axes] == [*range(rank - 2), rank - 1, rank - 2]


# Arithmetic


@rule("R.add(x, R.const(0, 'float32'))", "x: *s n")
def add_zero(x: Expr) -> Rewrite:
    """Rewrites x + 0 to x."""
    yield b.add(x, 0)
    yield x


@rule("R.multiply(R.const(1, 'float32'), x)", "x: *s")
def multiply_by_one(x: Expr) -> Rewrite:
    """Rewrites 1 * x to x."""
    yield b.multiply(1, x)
    yield x


@rule("R.multiply(x, R.const(0, 'int32'))", "x: *s int32")
def multiply_integer_by_zero(x: Expr) -> Rewrite:
    """Rewrites x * 0 to zeros for integers."""
    yield b.multiply(x, 0)
    if is_integer(x):
        yield zeros_like(x)


@rule("R.subtract(x, x)", "x: *s n int32")
def subtract_itself(x: Expr) -> Rewrite:
    """Rewrites x - x to zeros for integers."""
    yield b.subtract(x, x)
    if is_integer(x):
        yield zeros_like(x)


@rule("R.negative(R.subtract(x, y))", "x: *s n; y: *s n")
def negative_of_difference(x: Expr, y: Expr) -> Rewrite:
    """Rewrites -(x - y) to y - x."""
    yield negative(b.subtract(x, y))
    yield b.subtract(y, x)


@rule("R.add(R.multiply(x, z), R.multiply(y, z))", "x: *s n; y: *s n; z: n", floats=False)
def common_factor(x: Expr, y: Expr, z: Expr) -> Rewrite:
    """Rewrites x * z + y * z to (x + y) * z."""
    yield b.add(b.multiply(x, z), b.multiply(y, z))
    yield b.multiply(b.add(x, y), z)


@rule("R.add(R.add(x, R.const(3, 'int32')), R.const(4, 'int32'))", "x: *s int32")
def merge_added_constants(x: Expr, c: Constant, d: Constant) -> Rewrite:
    """Rewrites (x + c) + d to x + (c + d)."""
    yield b.add(b.add(x, c), d)
    yield b.add(x, b.add(c, d))


@rule(
    "R.multiply(R.multiply(x, R.const(3, 'float32')), R.const(0.5, 'float32'))",
    "x: *s",
    floats=False,
)
def merge_constant_factors(x: Expr, c: Constant, d: Constant) -> Rewrite:
    """Rewrites (x * c) * d to x * (c * d)."""
    yield b.multiply(b.multiply(x, c), d)
    yield b.multiply(x, b.multiply(c, d))


@rule("R.divide(x, R.const(3, 'float32'))", "x: *s n")
def divide_by_constant(x: Expr, c: Constant) -> Rewrite:
    """Rewrites x / c to x * (1 / c) for floats."""
    yield b.divide(x, c)
    divisors = np.asarray(value_of(c))
    if is_floating(x) and divisors.size and (divisors != 0).all():
        yield b.multiply(x, b.divide(ones_like(c), c))


@rule("R.divide(R.divide(x, y), z)", "x: *s n; y: *s n; z: n", floats=False)
def divide_quotient(x: Expr, y: Expr, z: Expr) -> Rewrite:
    """Rewrites (x / y) / z to x / (y * z) for floats."""
    yield b.divide(b.divide(x, y), z)
    if is_floating(x):
        yield b.divide(x, b.multiply(y, z))


@rule("R.divide(x, R.divide(y, z))", "x: *s n; y: *s n; z: n", floats=False)
def divide_by_quotient(x: Expr, y: Expr, z: Expr) -> Rewrite:
    """Rewrites x / (y / z) to (x * z) / y for floats."""
    yield b.divide(x, b.divide(y, z))
    if is_floating(x):
        yield b.divide(b.multiply(x, z), y)


@rule("R.divide(x, R.sqrt(y))", "x: *s n; y: n")
def divide_by_root(x: Expr, y: Expr) -> Rewrite:
    """Rewrites x / sqrt(y) to x * rsqrt(y)."""
    yield b.divide(x, sqrt(y))
    yield b.multiply(x, rsqrt(y))


@rule("R.sqrt(R.multiply(x, x))", "x: *s", floats=False)
def root_of_square(x: Expr) -> Rewrite:
    """Rewrites sqrt(x * x) to abs(x)."""
    yield sqrt(b.multiply(x, x))
    yield abs_(x)


@rule("R.power(x, R.const(-1, 'float32'))", "x: *s n")
def power_minus_one(x: Expr) -> Rewrite:
    """Rewrites x ** -1 to 1 / x for floats."""
    yield b.power(x, -1)
    if is_floating(x):
        yield b.divide(ones_like(x), x)


@rule("R.multiply(R.exp(x), R.exp(y))", "x: *s n; y: n", floats=False)
def product_of_exponentials(x: Expr, y: Expr) -> Rewrite:
    """Rewrites exp(x) * exp(y) to exp(x + y)."""
    yield b.multiply(exp(x), exp(y))
    yield exp(b.add(x, y))


@rule("R.power(R.exp(x), y)", "x: *s n; y: *s n", floats=False)
def power_of_exponential(x: Expr, y: Expr) -> Rewrite:
    """Rewrites exp(x) ** y to exp(x * y)."""
    yield b.power(exp(x), y)
    yield exp(b.multiply(x, y))


@rule("R.log(R.exp(x))", "x: *s", floats=False)
def logarithm_of_exponential(x: Expr) -> Rewrite:
    """Rewrites log(exp(x)) to x."""
    yield log(exp(x))
    yield x


@rule("R.clip(R.clip(x, 0, 5), -1, 3)", "x: *s n")
def merge_clips(x: Expr, low: Number, high: Number, least: Number, most: Number) -> Rewrite:
    """Rewrites two consecutive clips to one."""
    yield clip(clip(x, low, high), least, most)
    if low <= high and least <= most:
        yield clip(x, min(max(low, least), most), min(max(high, least), most))


@rule("R.floor_mod(R.floor_mod(x, y), y)", "x: *s n int32; y: *s n int32")
def remainder_of_remainder(x: Expr, y: Expr) -> Rewrite:
    """Rewrites (x % y) % y to x % y for integers."""
    once = b.floor_mod(x, y)
    yield b.floor_mod(once, y)
    if is_integer(x):
        yield once


# Comparisons, selection and conversion


@rule("R.less(x, x)", "x: *s n")
def less_than_itself(x: Expr) -> Rewrite:
    """Rewrites x < x to false, which also holds for NaN."""
    yield b.less(x, x)
    yield zeros_like(x, dtype="bool")


@rule("R.equal(x, x)", "x: *s n int64")
def equal_to_itself(x: Expr) -> Rewrite:
    """Rewrites x == x to true for integers."""
    yield b.equal(x, x)
    if is_integer(x):
        yield ones_like(x, dtype="bool")


@rule("R.logical_not(R.less(x, y))", "x: *s n int32; y: n int32")
def negated_comparison(x: Expr, y: Expr) -> Rewrite:
    """Rewrites not (x < y) to x >= y for integers; NaN is neither."""
    yield logical_not(b.less(x, y))
    if is_integer(x):
        yield b.greater_equal(x, y)


@rule("R.where(R.const(True, 'bool'), x, y)", "x: *s n; y: *s n")
def select_by_true(x: Expr, y: Expr) -> Rewrite:
    """Rewrites where(true, x, y) to x."""
    yield b.where(True, x, y)
    yield x


@rule("R.where(c, x, x)", "c: *s n bool; x: *s n")
def select_equal_values(c: Expr, x: Expr) -> Rewrite:
    """Rewrites where(c, x, x) to x."""
    yield b.where(c, x, x)
    yield x


LOSSLESS = {"float32": "float64", "int32": "float64", "bool": "int32"}


@rule("R.astype(R.astype(x, 'float64'), 'float32')", "x: *s n int32")
def merge_conversions(x: Expr, wide: DType, dtype: DType) -> Rewrite:
    """Rewrites two conversions to one if the first is exact."""
    yield astype(astype(x, wide), dtype)
    if LOSSLESS.get(dtype_of(x) or "") == wide:
        yield astype(x, dtype)


# Layout


@rule("R.permute_dims(R.permute_dims(x, [1, 2, 0]), [0, 2, 1])", "x: n m k")
def transpose_of_transpose(x: Expr, p: Ints, q: Ints) -> Rewrite:
    """Rewrites two consecutive permutes to one."""
    yield permute_dims(permute_dims(x, p), q)
    if p is not None and q is not None:
        yield permute_dims(x, tuple(p[axis] for axis in q))


@rule("R.permute_dims(R.exp(x), [2, 0, 1])", "x: n m k")
def transpose_of_elementwise(x: Expr, f: Op, axes: Ints) -> Rewrite:
    """Moves a permute before an elementwise op."""
    yield permute_dims(f(x), axes)
    if acts_element_wise(f):
        yield f(permute_dims(x, axes))


@rule("R.reshape(R.reshape(x, (n * m, k)), (n, m * k))", "x: n m k")
def reshape_of_reshape(x: Expr, inner: Sizes, outer: Sizes) -> Rewrite:
    """Rewrites two consecutive reshapes to one."""
    twice = reshape(reshape(x, inner), outer)
    yield twice
    sizes = dims_of(twice)
    if sizes is not None:
        yield reshape(x, sizes)


@rule("R.flip(R.flip(x, axis=-1), axis=-1)", "x: *s n")
def reverse_of_reverse(x: Expr, axis: Axes) -> Rewrite:
    """Removes two reversals along the same axes."""
    yield flip(flip(x, axis), axis)
    yield x


@rule("R.flip(x, axis=-2)", "x: *s 1 n")
def reverse_of_one(x: Expr, axis: Axis) -> Rewrite:
    """Removes the reversal of an axis of size 1."""
    yield flip(x, axis)
    if isinstance(axis, int) and has_size(x, axis, 1):
        yield x


@rule("R.flip(R.concat((x, y), axis=-1), axis=-1)", "x: *s n; y: *s m")
def reverse_of_concat(x: Expr, y: Expr, axis: Axis) -> Rewrite:
    """Rewrites the reversal of a concatenation to the reverse concatenation of reversals."""
    yield flip(concat((x, y), axis=axis), axis)
    yield concat((flip(y, axis), flip(x, axis)), axis=axis)


@rule("R.broadcast_to(R.broadcast_to(x, (n, m)), (k, n, m))", "x: m; y: k n")
def broadcast_of_broadcast(x: Expr, inner: Sizes, outer: Sizes) -> Rewrite:
    """Rewrites two consecutive broadcasts to one."""
    yield broadcast_to(broadcast_to(x, inner), outer)
    yield broadcast_to(x, outer)


@rule("R.flip(R.broadcast_to(x, (k, n, m)), axis=0)", "x: n m; y: k")
def reverse_of_broadcast(x: Expr, shape: Sizes, axis: Axis) -> Rewrite:
    """Removes the reversal of an axis that a broadcast adds."""
    wide = broadcast_to(x, shape)
    yield flip(wide, axis)
    rank, inner = rank_of(wide), rank_of(x)
    if rank is not None and inner is not None and axis % rank < rank - inner:
        yield wide


@rule("R.exp(R.broadcast_to(x, (n, m, k)))", "x: m 1; y: n k")
def elementwise_of_broadcast(x: Expr, f: Op, shape: Sizes) -> Rewrite:
    """Moves an elementwise op before a broadcast."""
    yield f(broadcast_to(x, shape))
    if acts_element_wise(f):
        yield broadcast_to(f(x), shape)


@rule("R.squeeze(R.expand_dims(x, axis=-1), axis=-1)", "x: *s n")
def squeeze_of_expand(x: Expr, axis: Axis) -> Rewrite:
    """Removes an axis that is added and removed."""
    yield squeeze(expand_dims(x, axis), axis)
    yield x


# Slices, pads and concatenations


@rule("R.strided_slice(R.strided_slice(x, [1], [1], [n + 1]), [1], [0], [n])", "x: k n+2 m; y: n")
def slice_of_slice(
    x: Expr, axes: Axes, begin: Sizes, end: Sizes, first: Sizes, last: Sizes
) -> Rewrite:
    """Rewrites a slice within a slice of the same axis to one slice."""
    inner = strided_slice(x, axes, begin, end)
    yield strided_slice(inner, axes, first, last)
    bounds = [dims_of(each) for each in (begin, end, first, last)]
    if None in bounds or any(len(each) != 1 for each in bounds):
        return
    (low,), (high,), (start,), (stop,) = bounds
    axis = axes if isinstance(axes, int) else axes[0]
    size = size_along(x, axis)
    ordered = [0, low, low + start, low + stop, high, size]
    if size is not None and all(map(at_most, ordered, ordered[1:])):
        yield strided_slice(x, axes, (low + start,), (low + stop,))


@rule("R.strided_slice(x, [1], [0], [n])", "x: m n k")
def slice_of_all(x: Expr, axes: Axes, begin: Sizes, end: Sizes) -> Rewrite:
    """Removes a slice of a whole axis."""
    yield strided_slice(x, axes, begin, end)
    low, high, listed = dims_of(begin), dims_of(end), (axes,) if isinstance(axes, int) else axes
    if low is None or high is None or any(each != 0 for each in low):
        return
    if all(has_size(x, axis, each) for axis, each in zip(listed, high, strict=True)):
        yield x


@rule("R.strided_slice(R.concat((x, y), axis=1), [1], [0], [n])", "x: k n; y: k m")
def slice_of_concat(x: Expr, y: Expr, axis: Axis, axes: Ints, begin: Sizes, end: Sizes) -> Rewrite:
    """Rewrites the slice of a concatenation that is its first operand."""
    yield strided_slice(concat((x, y), axis=axis), axes, begin, end)
    low, high = dims_of(begin), dims_of(end)
    if axes == (axis,) and low == (0,) and high is not None and has_size(x, axis, high[0]):
        yield x


@rule("R.strided_slice(R.nn.pad(x, [0, 0, 2, 3]), [1], [2], [n + 2])", "x: k n")
def slice_of_pad(
    x: Expr, widths: Ints, value: Number, axes: Ints, begin: Sizes, end: Sizes
) -> Rewrite:
    """Rewrites the slice of a padded tensor that is the tensor."""
    yield strided_slice(pad(x, widths, pad_value=value), axes, begin, end)
    low, high, size = dims_of(begin), dims_of(end), size_along(x, axes[0])
    if len(axes) != 1 or low is None or high is None or size is None:
        return
    axis = axes[0] % (len(widths) // 2)
    only = [width for k, width in enumerate(widths) if k // 2 != axis]
    before = widths[2 * axis]
    is_inverse = low == (before,) and equal(high[0], size + before) is True
    if is_inverse and not any(only) and min(widths) >= 0:
        yield x


@rule("R.nn.pad(R.nn.pad(x, [0, 0, 2, 3]), [1, 0, 1, 0])", "x: k n")
def pad_of_pad(x: Expr, inner: Ints, outer: Ints, value: Number) -> Rewrite:
    """Rewrites two consecutive pads with the same value to one."""
    yield pad(pad(x, inner, pad_value=value), outer, pad_value=value)
    if min(inner) >= 0 and min(outer) >= 0:
        yield pad(x, tuple(i + o for i, o in zip(inner, outer, strict=True)), pad_value=value)


@rule("R.concat((R.concat((x, y), axis=-1), z), axis=-1)", "x: *s n; y: *s m; z: *s k")
def concat_of_concat(x: Expr, y: Expr, z: Expr, axis: Axis) -> Rewrite:
    """Rewrites nested concatenations along the same axis to one."""
    yield concat((concat((x, y), axis=axis), z), axis=axis)
    yield concat((x, y, z), axis=axis)


@rule("R.concat((R.exp(x), R.exp(y)), axis=-1)", "x: *s n; y: *s m")
def concat_of_elementwise(x: Expr, y: Expr, f: Op, axis: Axis) -> Rewrite:
    """Moves an elementwise op after a concatenation."""
    yield concat((f(x), f(y)), axis=axis)
    if acts_element_wise(f) and dtype_of(x) == dtype_of(y):
        yield f(concat((x, y), axis=axis))


@rule(
    "R.concat((R.strided_slice(x, [0], [0], [2]), R.strided_slice(x, [0], [2], [n + 2])), axis=0)",
    "x: n+2 m; y: n",
)
def concat_of_slices(
    x: Expr, axes: Ints, axis: Axis, begin: Sizes, middle: Sizes, end: Sizes
) -> Rewrite:
    """Rewrites the concatenation of both parts of a tensor to the tensor."""
    yield concat(
        (strided_slice(x, axes, begin, middle), strided_slice(x, axes, middle, end)), axis=axis
    )
    bounds = [dims_of(each) for each in (begin, middle, end)]
    size = size_along(x, axis)
    if axes != (axis,) or None in bounds or size is None:
        return
    (low,), (cut,), (high,) = bounds
    if low == 0 and at_most(0, cut) and at_most(cut, size) and equal(high, size) is True:
        yield x


@rule("R.slice_scatter(x, y, 0, n, axis=0)", "x: n m; y: n m")
def update_of_all(x: Expr, y: Expr, start: Any, end: Any, axis: Axis) -> Rewrite:
    """Rewrites an update of a whole tensor to the new values."""
    yield slice_scatter(x, y, start, end, axis=axis)
    low, high = getattr(start, "value", start), getattr(end, "value", end)
    if low == 0 and has_size(x, axis, high) and same_sizes(x, y):
        yield y


@rule(
    "R.dynamic_strided_slice(x, R.const([1, 0], 'int64'), R.const([3, 2], 'int64'), "
    "R.const([1, 1], 'int64'))",
    "x: 4 3",
)
def dynamic_slice_of_constants(x: Expr, begin: Constant, end: Constant, step: Constant) -> Rewrite:
    """Rewrites a slice with constant bounds to a static slice."""
    yield dynamic_strided_slice(x, begin, end, step)
    first, last, steps = (tuple(value_of(each).tolist()) for each in (begin, end, step))
    if min(first) >= 0 and min(last) >= 0 and set(steps) == {1}:
        yield strided_slice(x, tuple(range(len(first))), first, last)


@rule("R.take(x, R.arange(n), axis=-1)", "x: *s n")
def gather_of_iota(x: Expr, n: Any, axis: Axis) -> Rewrite:
    """Removes a gather of all elements in order."""
    yield take(x, arange(n), axis=axis)
    size = getattr(n, "value", n)
    if axis is not None and has_size(x, axis, size):
        yield x


# Reductions


@rule("R.sum(R.sum(x, axis=-1), axis=-1)", "x: *s n m")
def reduce_of_reduce(x: Expr, inner: Axis, outer: Axis) -> Rewrite:
    """Rewrites the sum of a sum over the last axes to one sum."""
    yield sum_(sum_(x, inner), outer)
    if inner == -1 and outer == -1:
        yield sum_(x, (-2, -1))


@rule("R.sum(R.broadcast_to(x, (5, n, m)), axis=0)", "x: n m", floats=False)
def sum_of_broadcast(x: Expr, shape: Sizes, axis: Axis) -> Rewrite:
    """Rewrites the sum over an axis that a broadcast adds to a product with its size."""
    yield sum_(broadcast_to(x, shape), axis)
    sizes, rank = dims_of(shape), rank_of(x)
    if sizes is None or rank is None or axis not in (0, -len(sizes)) or len(sizes) != rank + 1:
        return
    if isinstance(sizes[0], int) and is_floating(x) and sizes[1:] == dims_of(x):
        yield b.multiply(x, float(sizes[0]))


@rule("R.max(R.broadcast_to(x, (k + 1, n, m)), axis=0)", "x: n m; y: k")
def max_of_broadcast(x: Expr, shape: Sizes, axis: Axis) -> Rewrite:
    """Removes the maximum over an axis that a broadcast adds, unless that is empty."""
    yield max_(broadcast_to(x, shape), axis)
    sizes, rank = dims_of(shape), rank_of(x)
    if sizes is None or rank is None or axis not in (0, -len(sizes)) or len(sizes) != rank + 1:
        return
    if at_most(1, sizes[0]) and sizes[1:] == dims_of(x):
        yield x


@rule("R.sum(R.permute_dims(x, [2, 0, 1]), axis=1)", "x: n m k")
def reduce_of_transpose(x: Expr, axes: Ints, axis: Axes) -> Rewrite:
    """Moves a sum before a permute."""
    yield sum_(permute_dims(x, axes), axis)
    rank = rank_of(x)
    if rank is None or axes is None:
        return
    dropped = [axes[k] % rank for k in within(axis, rank)]
    remaining = [a % rank for a in axes if a % rank not in dropped]
    yield permute_dims(
        sum_(x, tuple(dropped)), tuple(sorted(remaining).index(a) for a in remaining)
    )


@rule("R.sum(R.reshape(x, (n * m, k)))", "x: n m k")
def reduce_of_reshape(x: Expr, shape: Sizes) -> Rewrite:
    """Removes a reshape before a sum of all elements."""
    yield sum_(reshape(x, shape))
    yield sum_(x)


@rule("R.sum(R.concat((x, y), axis=-1), axis=-1)", "x: *s n; y: *s m")
def reduce_of_concat(x: Expr, y: Expr, axis: Axis) -> Rewrite:
    """Rewrites the sum over a concatenated axis to the sum of the sums."""
    yield sum_(concat((x, y), axis=axis), axis)
    yield b.add(sum_(x, axis), sum_(y, axis))


@rule("R.sum(R.multiply(x, c), axis=-1)", "x: *s n; c: ", floats=False)
def reduce_of_scaled(x: Expr, c: Expr, axis: Axes) -> Rewrite:
    """Moves a scalar factor out of a sum."""
    yield sum_(b.multiply(x, c), axis)
    if rank_of(c) == 0:
        yield b.multiply(sum_(x, axis), c)


@rule("R.max(R.exp(x), axis=-1)", "x: *s n+1; y: n")
def max_of_exponential(x: Expr, axis: Axis) -> Rewrite:
    """Moves an increasing function out of a maximum of at least one element."""
    yield max_(exp(x), axis)
    size = size_along(x, axis) if isinstance(axis, int) else None
    if size is not None and at_most(1, size):
        yield exp(max_(x, axis))


# Products and convolutions


@rule(
    "R.matmul(R.permute_dims(x, [0, 2, 1]), R.permute_dims(y, [0, 2, 1]))",
    "x: d m n; y: d k m",
)
def dot_of_transposes(x: Expr, y: Expr, p: Ints, q: Ints) -> Rewrite:
    """Rewrites the product of transposed matrices to the transpose of their product."""
    yield matmul(permute_dims(x, p), permute_dims(y, q))
    if p is not None and p == q and swaps_last_two(p):
        yield permute_dims(matmul(y, x), p)


@rule("R.matmul(R.multiply(x, c), y)", "x: *s n m; y: *s m k; c: ", floats=False)
def dot_of_scaled(x: Expr, y: Expr, c: Expr) -> Rewrite:
    """Moves a scalar factor after a product."""
    yield matmul(b.multiply(x, c), y)
    if rank_of(c) == 0:
        yield b.multiply(matmul(x, y), c)


@rule(
    "R.matmul(R.concat((x, y), axis=-1), R.concat((z, w), axis=-2))",
    "x: *s n m; y: *s n k; z: *s m j; w: *s k j",
)
def dot_of_concats(x: Expr, y: Expr, z: Expr, w: Expr) -> Rewrite:
    """Rewrites the product of concatenations along the contracted axis to a sum of products."""
    yield matmul(concat((x, y), axis=-1), concat((z, w), axis=-2))
    size = size_along(x, -1)
    if size is not None and has_size(z, -2, size):
        yield b.add(matmul(x, z), matmul(y, w))


@rule("R.matmul(x, R.eye(m))", "x: *s n m", floats=False)
def dot_of_identity(x: Expr, m: Any) -> Rewrite:
    """Removes a product with an identity matrix."""
    yield matmul(x, eye(m))
    yield x


@rule("R.matmul(x, y)", "x: *s n 1; y: *s 1 m")
def outer_product(x: Expr, y: Expr) -> Rewrite:
    """Rewrites a product over an axis of size 1 to an elementwise product."""
    yield matmul(x, y)
    if has_size(x, -1, 1) and has_size(y, -2, 1):
        yield b.multiply(x, y)


@rule(
    "R.nn.conv2d(R.nn.pad(x, [0, 0, 0, 0, 1, 2, 2, 1]), w)", "x: d c h v; w: o c 2 2", floats=False
)
def convolution_of_pad(x: Expr, w: Expr, widths: Ints) -> Rewrite:
    """Merges a pad of the spatial axes into a convolution."""
    yield conv2d(pad(x, widths), w)
    if not any(widths[:4]) and min(widths) >= 0:
        top, bottom, left, right = widths[4:]
        yield conv2d(x, w, padding=(top, left, bottom, right))


# Wrong rules: a side condition is missing or too weak


@rule("R.equal(x, x)", "x: *s n", wrong=True)
def float_equal_to_itself(x: Expr) -> Rewrite:
    """Rewrites x == x to true, also for NaN."""
    yield b.equal(x, x)
    yield ones_like(x, dtype="bool")


@rule("R.logical_not(R.less(x, y))", "x: *s n; y: n", wrong=True)
def negated_float_comparison(x: Expr, y: Expr) -> Rewrite:
    """Rewrites not (x < y) to x >= y, also for NaN."""
    yield logical_not(b.less(x, y))
    yield b.greater_equal(x, y)


@rule("R.astype(R.astype(x, 'int32'), 'float64')", "x: *s n", wrong=True)
def merge_lossy_conversions(x: Expr, wide: DType, dtype: DType) -> Rewrite:
    """Rewrites two conversions to one, also if the first rounds."""
    yield astype(astype(x, wide), dtype)
    yield astype(x, dtype)


@rule(
    "R.strided_slice(R.strided_slice(x, [1], [2], [5]), [1], [-2], [-1])",
    "x: k n+7; y: n",
    wrong=True,
)
def slice_of_slice_from_end(
    x: Expr, axes: Ints, begin: Sizes, end: Sizes, first: Sizes, last: Sizes
) -> Rewrite:
    """Rewrites a slice within a slice to one slice, also if its bounds count from the end."""
    yield strided_slice(strided_slice(x, axes, begin, end), axes, first, last)
    (low,), (start,), (stop,) = dims_of(begin), dims_of(first), dims_of(last)
    yield strided_slice(x, axes, (low + start,), (low + stop,))


@rule("R.strided_slice(R.concat((x, y), axis=1), [1], [n], [2 * n])", "x: k n; y: k n", wrong=True)
def any_slice_of_concat(
    x: Expr, y: Expr, axis: Axis, axes: Ints, begin: Sizes, end: Sizes
) -> Rewrite:
    """Rewrites the slice of a concatenation to its first operand, wherever the slice begins."""
    cut = strided_slice(concat((x, y), axis=axis), axes, begin, end)
    yield cut
    if axes == (axis,) and same_sizes(cut, x):
        yield x


@rule("R.nn.pad(R.nn.pad(x, [0, 0, 2, 3]), [1, 0, 1, 0], pad_value=1.0)", "x: k n", wrong=True)
def pad_of_other_pad(x: Expr, inner: Ints, outer: Ints, value: Number, other: Number) -> Rewrite:
    """Rewrites two consecutive pads to one, also if their values differ."""
    yield pad(pad(x, inner, pad_value=value), outer, pad_value=other)
    yield pad(x, tuple(i + o for i, o in zip(inner, outer, strict=True)), pad_value=value)


@rule("R.flip(R.broadcast_to(x, (k, n, m)), axis=1)", "x: n m; y: k", wrong=True)
def reverse_of_any_broadcast(x: Expr, shape: Sizes, axis: Axis) -> Rewrite:
    """Removes a reversal after a broadcast, also of the axis after the added ones."""
    wide = broadcast_to(x, shape)
    yield flip(wide, axis)
    rank, inner = rank_of(wide), rank_of(x)
    if rank is not None and inner is not None and axis % rank <= rank - inner:
        yield wide


@rule("R.sum(R.sum(x, axis=-1), axis=-2)", "x: n n n", wrong=True)
def reduce_of_any_reduce(x: Expr, inner: Axis, outer: Axis) -> Rewrite:
    """Rewrites a sum of a sum to one sum over the last axes, whichever the axes are."""
    yield sum_(sum_(x, inner), outer)
    yield sum_(x, (-2, -1))


@rule("R.sum(R.multiply(x, c), axis=-1)", "x: n n; c: n", wrong=True)
def reduce_of_scaled_rows(x: Expr, c: Expr, axis: Axes) -> Rewrite:
    """Moves a factor out of a sum, also if it varies along the axis."""
    yield sum_(b.multiply(x, c), axis)
    yield b.multiply(sum_(x, axis), c)


@rule(
    "R.matmul(R.permute_dims(x, [1, 0, 2]), R.permute_dims(y, [1, 0, 2]))",
    "x: n n n; y: n n n",
    wrong=True,
)
def dot_of_any_transposes(x: Expr, y: Expr, p: Ints, q: Ints) -> Rewrite:
    """Moves a permute after a product, also if it moves batch axes."""
    yield matmul(permute_dims(x, p), permute_dims(y, q))
    if p == q:
        yield permute_dims(matmul(y, x), p)

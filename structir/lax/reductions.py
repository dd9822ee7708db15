"""Reductions over axes, and logarithms of running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.lax.checks import invalid, sequence
from structir.numpy import elementwise, indexing, reals, reductions, shaping
from structir.tracing.array import TracedArray, cast, joint_operands
from structir.tracing.array import operand as as_operand
from structir.tracing.context import traced, user_code
from structir.tracing.trees import TreeStructure, flatten
from structir.transforms.control import associative_scan

Reduction = Callable[..., TracedArray]
REDUCTIONS: dict[Any, Reduction] = {
    elementwise.add: reductions.sum,
    elementwise.multiply: reductions.prod,
    elementwise.maximum: reductions.max,
    elementwise.minimum: reductions.min,
}


def _reduction(name: str, function: Reduction, text: str) -> Any:
    def reduce(operand: Any, axes: Any, **hints: Any) -> TracedArray:
        array, positions = as_operand(operand), sequence(axes, f"{name}: axes")
        if not positions:
            return array
        return cast(function(array, axis=tuple(positions)), array.dtype_name)

    reduce.__name__ = reduce.__qualname__ = name
    reduce.__doc__ = f"Returns the {text} over axes, in the dtype of the array."
    return traced(reduce)


def _of_bits(combine: Reduction) -> Reduction:
    def reduce(array: TracedArray, axis: Any) -> TracedArray:
        return folded(combine, flatten(array)[1], [array], shaping.axes_of(axis, array.ndim))[0]

    return reduce


def _of_truth(of_bools: Reduction, combine: Reduction) -> Reduction:
    of_bits = _of_bits(combine)

    def reduce(array: TracedArray, axis: Any) -> TracedArray:
        return (of_bools if array.dtype_name == "bool" else of_bits)(array, axis=axis)

    return reduce


_all = _of_truth(reductions.all, elementwise.bitwise_and)
_any = _of_truth(reductions.any, elementwise.bitwise_or)
reduce_max = _reduction("reduce_max", reductions.max, "largest element")
reduce_min = _reduction("reduce_min", reductions.min, "smallest element")
reduce_sum = _reduction("reduce_sum", reductions.sum, "sum")
reduce_prod = _reduction("reduce_prod", reductions.prod, "product")
reduce_and = _reduction("reduce_and", _all, "bitwise conjunction")
reduce_or = _reduction("reduce_or", _any, "bitwise disjunction")
reduce_xor = _reduction("reduce_xor", _of_bits(elementwise.bitwise_xor), "bitwise exclusive or")


@traced
def reduce(operands: Any, init_values: Any, computation: Any, dimensions: Any) -> Any:
    """Returns arrays reduced over axes by an associative function of two of their elements.

    `computation` takes and returns trees like `operands`. A function other than `lax.add`, `mul`,
    `max` and `min` requires axes of known size. Raises DiagnosticError for other sizes.
    """
    leaves, structure = flatten(operands)
    arrays = joint_operands(leaves)
    if not len(dimensions):
        return structure.unflatten(arrays)
    axes = shaping.axes_of(tuple(dimensions), arrays[0].ndim)
    known = REDUCTIONS.get(computation)
    if known is not None and len(arrays) == 1:
        reduced = [known(arrays[0], tuple(axes))]
    else:
        reduced = folded(computation, structure, arrays, axes)
    first = joint_operands(flatten(init_values)[0])
    results = combined(computation, structure, first, reduced)
    return structure.unflatten(
        [cast(x, a.dtype_name) for x, a in zip(results, arrays, strict=True)]
    )


def combined(
    computation: Any, structure: TreeStructure, first: list[TracedArray], second: list[TracedArray]
) -> list[TracedArray]:
    """Returns the results of a function of two trees of arrays."""
    with user_code():
        result = computation(structure.unflatten(first), structure.unflatten(second))
    return joint_operands(flatten(result)[0])


def folded(
    computation: Any, structure: TreeStructure, arrays: list[TracedArray], axes: list[int]
) -> list[TracedArray]:
    """Returns arrays of which neighbours along axes are combined until one element is left."""
    for axis in sorted(axes, reverse=True):
        prefix = (slice(None),) * axis
        count = arrays[0].shape[axis].__index__()
        if not count:
            raise invalid("reduce: expected at least one element, found an axis of size 0")
        while count > 1:
            pairs = [
                [indexing.getitem(a, (*prefix, slice(k, count - count % 2, 2))) for a in arrays]
                for k in (0, 1)
            ]
            halves = combined(computation, structure, *pairs)
            if count % 2:
                rest = [indexing.getitem(a, (*prefix, slice(count - 1, count))) for a in arrays]
                halves = [
                    shaping.concatenate(parts, axis) for parts in zip(halves, rest, strict=True)
                ]
            arrays, count = halves, (count + 1) // 2
        arrays = [indexing.getitem(a, (*prefix, 0)) for a in arrays]
    return arrays


@traced
def cumlogsumexp(operand: Any, axis: int = 0, reverse: bool = False) -> TracedArray:
    """Returns the logarithms of cumulative sums of exponentials along an axis."""
    array = elementwise.real(operand)
    position = shaping.axis_of(axis, array.ndim)
    array = shaping.flip(array, position) if reverse else array
    result = associative_scan(reals.logaddexp, array, axis=position)
    return shaping.flip(result, position) if reverse else result

"""`structir.numpy.apply_along_axis`: a function of vectors, applied along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.lazy import exported
from structir.numpy.shaping import axis_of, moveaxis, reshape, transpose
from structir.tracing.array import TracedArray, operand
from structir.transforms.jit import transformed
from structir.transforms.mapping import vmap


@exported
def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **keywords: Any
) -> TracedArray:
    """Returns the results of a function of vectors along an axis, in its place."""

    @transformed(func1d)
    def applied(x: Any) -> TracedArray:
        array = operand(x)
        position = axis_of(axis, array.ndim)
        moved = moveaxis(array, position, -1)
        rows = reshape(moved, (-1, moved.shape[-1]))
        results = vmap(lambda row: func1d(row, *args, **keywords))(rows)
        shape = (*moved.shape[:-1], *results.shape[1:])
        outer, inner = array.ndim - 1, list(range(array.ndim - 1, len(shape)))
        order = [*range(position), *inner, *range(position, outer)]
        return transpose(reshape(results, shape), order)

    return applied(arr)

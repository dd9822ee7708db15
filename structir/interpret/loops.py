"""Loops as an external function: calls a body function while its condition holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from structir.errors import ShapeMismatchError
from structir.interpret.extern import register_extern
from structir.ir.dtype import numpy_dtype
from structir.ops.loop import LoopSpec, at_once

Array = np.ndarray[Any, Any]


def iterate(
    body: Any,
    trips: Any,
    condition: Any,
    carried: tuple[Any, ...],
    empty: tuple[tuple[int, ...], ...],
    dtypes: str,
) -> tuple[Any, ...]:
    """Runs a loop; returns the final carried values, then the stacked outputs.

    `body(i, condition, *carried)` returns the next condition, the next carried values, and one
    element of each output. It is called `trips` times (without limit for the empty tuple), or until
    the condition is false. Outputs of a loop without steps have the shapes `empty` and the
    `dtypes`.
    """
    limits = [None if isinstance(value, tuple) else value for value in (trips, condition)]
    result = at_once(body, LoopSpec(limits[0], limits[1], carried))
    if result is not None:
        return (*result[0], *result[1])
    limit = None if isinstance(trips, tuple) else int(trips)
    going = np.asarray(True) if isinstance(condition, tuple) else condition
    grown: list[list[Array]] = [[] for _ in empty]
    step = 0
    while bool(going) and (limit is None or step < limit):
        going, *rest = body(np.asarray(step, np.int64), np.asarray(going), *carried)
        carried = tuple(rest[: len(carried)])
        for elements, element in zip(grown, rest[len(carried) :], strict=True):
            elements.append(element)
        step += 1
    forms = zip(grown, empty, dtypes.split(), strict=True)
    return (*carried, *[_stacked(e, shape, dtype) for e, shape, dtype in forms])


def _stacked(elements: list[Array], empty: tuple[int, ...], dtype: str) -> Array:
    if not elements:
        return np.empty(empty, numpy_dtype(dtype))
    if any(e.shape != elements[0].shape for e in elements):
        shapes = sorted({e.shape for e in elements})
        raise ShapeMismatchError(f"loop output: expected elements of one shape, found {shapes}")
    return np.stack(elements)


register_extern("loop.iterate", iterate, by_form=True)

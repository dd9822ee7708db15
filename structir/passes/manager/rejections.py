"""Generates arguments of wrong shapes, which a function should reject."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

MOST_WRONG = 12  # wrong shapes of one function
MOST_SIZES = 4  # that several axes have


def wrong_arguments(arguments: list[Any]) -> Iterator[list[Any]]:
    """Yields the arguments with one axis of one array longer by one, or with one axis more; then
    with all axes of one size longer by one."""
    wrong = [
        [*arguments[:k], array, *arguments[k + 1 :]]
        for k, argument in enumerate(arguments)
        if isinstance(argument, np.ndarray)
        for array in _wrong_shapes(argument)
    ]
    yield from wrong[:MOST_WRONG]
    sizes = {
        size
        for array in arguments
        if isinstance(array, np.ndarray)
        for size in array.shape
        if size > 1
    }
    for size in sorted(sizes)[:MOST_SIZES]:
        yield [_longer(array, size) for array in arguments]


def _longer(value: Any, size: int) -> Any:
    """Returns an array whose axes of a size are longer by one."""
    if isinstance(value, np.ndarray):
        for axis in range(value.ndim):
            if value.shape[axis] == size:
                first = np.take(value, [0], axis=axis)
                value = np.concatenate((value, first), axis=axis)
    return value


def _wrong_shapes(array: Any) -> Iterator[Any]:
    for axis in range(array.ndim):
        if array.shape[axis]:
            first = np.take(array, [0], axis=axis)
            yield np.concatenate((array, first), axis=axis)
    yield array[None]

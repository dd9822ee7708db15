"""Generates arguments of wrong shapes, which a function should reject."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

MOST_WRONG = 12  # wrong shapes of one function


def wrong_arguments(arguments: list[Any]) -> Iterator[list[Any]]:
    """Yields the arguments with one axis of one array longer by one, or with one axis more."""
    wrong = [
        [*arguments[:k], array, *arguments[k + 1 :]]
        for k, argument in enumerate(arguments)
        if isinstance(argument, np.ndarray)
        for array in _wrong_shapes(argument)
    ]
    yield from wrong[:MOST_WRONG]


def _wrong_shapes(array: Any) -> Iterator[Any]:
    for axis in range(array.ndim):
        if array.shape[axis]:
            first = np.take(array, [0], axis=axis)
            yield np.concatenate((array, first), axis=axis)
    yield array[None]

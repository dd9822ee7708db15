"""Buffers: the arrays that stages read and write, dense and row-major."""

from __future__ import annotations

from functools import cached_property
from itertools import count
from math import prod
from typing import Any

import attrs
import numpy as np

from structir.backend.loops.scalar_functions import STORED_AS
from structir.ir.dims import Dim

_numbers = count()


def element_bytes(dtype: str) -> int:
    """Returns the size of an element in bytes."""
    return np.dtype(STORED_AS.get(dtype, dtype)).itemsize


@attrs.frozen(eq=False, repr=False, slots=False)
class Buffer:
    """A dense, row-major array; with `base`, a view of another one under a new shape.

    `origin` is "input", "constant" (then `data` holds it) or "value".
    """

    shape: tuple[Dim, ...]
    dtype: str
    origin: str = "value"
    base: Buffer | None = None
    data: Any = None
    name: str = ""
    number: int = attrs.Factory(lambda: next(_numbers))

    def __repr__(self) -> str:
        return self.name or f"t{self.number}"

    @cached_property
    def strides(self) -> tuple[Dim, ...]:
        """The strides of the axes, in elements."""
        found: list[Dim] = []
        step: Dim = 1
        for size in reversed(self.shape):
            found.append(step)
            step = step * size
        return tuple(reversed(found))

    @cached_property
    def elements(self) -> Dim:
        """The number of elements."""
        return prod(self.shape)

    @property
    def root(self) -> Buffer:
        """The buffer that owns the memory."""
        found = self
        while found.base is not None:
            found = found.base
        return found

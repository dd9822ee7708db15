"""Buffers: the arrays that stages read and write, dense and row-major; which results are so large
that non-temporal stores fill them.

Such a store is several times slower where a line is not written in one go, and, in a loop that
computes much, where reads are just behind the stores, counted within a page.
"""

from __future__ import annotations

from itertools import count
from math import prod
from typing import Any

import attrs
import numpy as np

from structir.ir.dims import Dim
from structir.ir.kernel_functions import EIGHTHS
from structir.system.locks import cached_property

STORED_AS = {"bool": "uint8", "float16": "uint16", "bfloat16": "uint16"}  # the others as they are
STORED_AS |= dict.fromkeys(EIGHTHS, "uint8")
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
        steps: list[Dim] = []
        step: Dim = 1
        for size in reversed(self.shape):
            steps.append(step)
            step = step * size
        return tuple(reversed(steps))

    @cached_property
    def elements(self) -> Dim:
        """The number of elements."""
        return prod(self.shape)

    @property
    def root(self) -> Buffer:
        """The buffer that owns the memory."""
        owner = self
        while owner.base is not None:
            owner = owner.base
        return owner


LINE = 64  # bytes of a line of cache
LARGE = 1 << 24  # bytes of a result from which on it is written so
MORE = 10.0  # work (an addition is 1) from which on waits for stores are felt: one function
LONG = 1 << 13  # bytes of a loop from which on it may start and end within a line,
LONG_OF_LINES = 1 << 10  # and of a loop over whole lines, on some CPUs
PAGE = 4096  # bytes; processors tell loads from pending stores by their addresses within a page
BEHIND = 256  # bytes from a load up to a store in its page for which it waits


def may_be_large(buffer: Buffer) -> bool:
    """Whether a result is large at some sizes, with elements that make up vectors."""
    size, count = element_bytes(buffer.dtype), buffer.elements
    return size >= 4 and not (isinstance(count, int) and count * size < LARGE)

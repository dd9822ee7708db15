"""Values that grow in a loop: outputs, lists, and tensors that rows are appended to."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import attrs
import numpy as np

from structir.interpret.lists import GrowingList
from structir.interpret.scope import ForeignTensor
from structir.runtime.plans.instructions import OUTSIDE, WORD, MemoryCell, NotPlannedError

OUTPUT, LIST, ROWS = "output", "list", "rows"  # values of `Growing.kind`


@attrs.define(eq=False)
class Growing:
    """Memory for a number of elements that is known only at run time.

    Elements are only appended, so only the latest version of the value exists.
    """

    kind: str
    append: Callable[[Any, Any], Any]  # returns the value after appending an element
    form: tuple[tuple[int, ...], Any] | None = None  # the shape and the dtype of an element
    cell: MemoryCell = attrs.Factory(lambda: MemoryCell(0, OUTSIDE))
    filled: MemoryCell = attrs.Factory(lambda: MemoryCell(WORD))  # holds the number of bytes used
    version: int = 0  # the version of the latest value
    versions: int = 0
    ends: tuple[int, int] = (0, 0)  # the latest versions of the two branches of a conditional
    room: int = 64  # initial capacity in elements; raised when a run needs more

    @property
    def value(self) -> Grown:
        """The current version of the value."""
        return Grown(self, self.version)

    def change(self) -> None:
        """Records that the value has changed."""
        self.versions += 1
        self.version = self.versions

    def fits(self, shape: tuple[int, ...], dtype: Any) -> bool:
        """Whether an element of this shape and dtype can be appended; the first one determines
        both."""
        if self.form is None:
            self.form = shape, dtype
        return self.form == (shape, dtype) and prod(shape) > 0

    def merge_versions(self, then_version: int | None, else_version: int | None) -> None:
        """Merges the versions at the ends of two branches; None where a branch falls back to the
        host."""
        if then_version is None or else_version is None or then_version == else_version:
            self.version = next(v for v in (then_version, else_version) if v is not None)
        else:
            self.ends = then_version, else_version
            self.change()

    def new(self, room: int) -> Any:
        """Allocates memory for elements."""
        shape, dtype = self.form or ((), np.dtype(np.uint8))
        return np.empty((room, *shape), dtype)

    def count(self, size: int) -> int:
        """Returns how many elements a number of bytes holds."""
        shape, dtype = self.form or ((), np.dtype(np.uint8))
        return int(size // (prod(shape) * dtype.itemsize))


def _unknown(*_: Any, **__: Any) -> Any:
    raise NotPlannedError("a value known only at run time")


class UnknownLength:
    """The length of one value that grows: neither converted nor equal to another length."""

    __int__ = __index__ = __eq__ = _unknown
    __hash__ = object.__hash__


class Grown(ForeignTensor, GrowingList):
    """One version of a value that grows."""

    __slots__ = ("dtype", "growing", "kind", "shape", "version")

    def __init__(
        self, growing: Growing, version: int, kind: str = "", rest: tuple[int, ...] | None = None
    ) -> None:
        self.growing, self.version, self.kind = growing, version, kind or growing.kind
        shape, self.dtype = growing.form or ((), None)
        self.shape: Any = (UnknownLength(), *(shape if rest is None else rest))

    def concatenate(self, axis: int, new: bool) -> Grown:
        """Returns the elements of a list as one tensor, stacked along its first axis."""
        shape, _ = self.growing.form or ((), None)
        if self.kind != LIST or axis != 0 or not (new or shape):
            raise NotPlannedError("appending along another axis")
        return Grown(self.growing, self.version, OUTPUT, shape if new else shape[1:])

    def from_elements(self, array: Any) -> Any:
        """Returns the run-time value, from the array of all elements."""
        if self.kind == LIST:
            return tuple([array[k, ...] for k in range(len(array))])
        return array.reshape((-1, *self.shape[1:]))

    def __add__(self, items: tuple[Any, ...]) -> Grown:
        """Returns a list with more elements."""
        if self.kind != LIST:
            raise NotPlannedError("expected a list")
        result = self
        for item in items:
            result = self.growing.append(result, item)
        return result

    __array__ = __bool__ = __int__ = __float__ = __index__ = __len__ = __iter__ = _unknown
    item = __getitem__ = _unknown


def merge_growing(then: Grown, otherwise: Any) -> Grown:
    """Merges the results of two branches, at least one of which is a growing value."""
    growing = then.growing
    same = isinstance(otherwise, Grown) and otherwise.growing is growing
    if (
        same
        and then.version == otherwise.version == growing.version
        and then.kind == otherwise.kind
    ):
        return then
    is_current = same and then.kind == otherwise.kind == growing.kind
    if not is_current or (then.version, otherwise.version) != growing.ends:
        raise NotPlannedError("a value whose memory has been reused")
    return growing.value

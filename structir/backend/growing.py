"""Values that grow in a loop: outputs, lists, and tensors that get more rows."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import attrs
import numpy as np

from structir.backend.steps import OUTSIDE, WORD, MemoryCell, NotPlannedError
from structir.interpret.lists import GrowingList
from structir.interpret.scope import ForeignTensor

OUTPUT, LIST, ROWS = "output", "list", "rows"  # what grows


@attrs.define(eq=False)
class Growing:
    """Memory for as many elements as come, which only running tells. What is added is not taken
    back, so only the value that was made last is still there."""

    kind: str
    append: Callable[[Any, Any], Any]  # of a value and an element: the value with it
    form: tuple[tuple[int, ...], Any] | None = None  # the shape and the dtype of an element
    cell: MemoryCell = attrs.Factory(lambda: MemoryCell(0, OUTSIDE))
    filled: MemoryCell = attrs.Factory(lambda: MemoryCell(WORD))  # holds how many bytes there are
    version: int = 0  # of the last value
    versions: int = 0
    ends: tuple[int, int] = (0, 0)  # the last ones of the two branches of a choice
    room: int = 64  # elements at first; a run that needed more tells the next one

    @property
    def value(self) -> Grown:
        """What it is now."""
        return Grown(self, self.version)

    def change(self) -> None:
        """It is another value from here on."""
        self.versions += 1
        self.version = self.versions

    def fits(self, shape: tuple[int, ...], dtype: Any) -> bool:
        """Whether elements may be of a form; the first one tells that of all."""
        if self.form is None:
            self.form = shape, dtype
        return self.form == (shape, dtype) and prod(shape) > 0

    def chosen(self, one: int | None, two: int | None) -> None:
        """After a choice, of which the branches have ended with these versions; None where a branch
        has left."""
        if one is None or two is None or one == two:
            self.version = next(v for v in (one, two) if v is not None)
        else:
            self.ends = one, two
            self.change()

    def new(self, room: int) -> Any:
        """Room for elements."""
        shape, dtype = self.form or ((), np.dtype(np.uint8))
        return np.empty((room, *shape), dtype)

    def count(self, size: int) -> int:
        """How many elements so many bytes are."""
        shape, dtype = self.form or ((), np.dtype(np.uint8))
        return int(size // (prod(shape) * dtype.itemsize))


class Grown(ForeignTensor, GrowingList):
    """A value that grows, as it is at one place of the program."""

    __slots__ = ("dtype", "growing", "kind", "shape", "version")

    def __init__(
        self, growing: Growing, version: int, kind: str = "", rest: tuple[int, ...] | None = None
    ) -> None:
        self.growing, self.version, self.kind = growing, version, kind or growing.kind
        shape, self.dtype = growing.form or ((), None)
        self.shape: Any = (None, *(shape if rest is None else rest))  # the first size is not known

    def side_by_side(self, axis: int, new: bool) -> Grown:
        """The elements of a list as one tensor, along its first axis."""
        shape, _ = self.growing.form or ((), None)
        if self.kind != LIST or axis != 0 or not (new or shape):
            raise NotPlannedError("elements along another axis")
        return Grown(self.growing, self.version, OUTPUT, shape if new else shape[1:])

    def given(self, array: Any) -> Any:
        """The value, of its elements side by side."""
        if self.kind == LIST:
            return tuple([array[k, ...] for k in range(len(array))])
        return array.reshape((-1, *self.shape[1:]))

    def __add__(self, items: tuple[Any, ...]) -> Grown:
        """A list with more in it."""
        if self.kind != LIST:
            raise NotPlannedError("no list")
        found = self
        for item in items:
            found = self.growing.append(found, item)
        return found

    def _unknown(self, *_: Any, **__: Any) -> Any:
        raise NotPlannedError("a value that only running tells")

    __array__ = __bool__ = __int__ = __float__ = __index__ = __len__ = __iter__ = _unknown
    item = __getitem__ = _unknown


def joined(one: Grown, two: Any) -> Grown:
    """What either branch of a choice gives, where both give what has grown."""
    growing = one.growing
    same = isinstance(two, Grown) and two.growing is growing
    if same and one.version == two.version == growing.version and one.kind == two.kind:
        return one
    whole = same and one.kind == two.kind == growing.kind
    if not whole or (one.version, two.version) != growing.ends:
        raise NotPlannedError("a value that is no longer there")
    return growing.value

"""Values that grow in a loop: outputs, lists, and tensors that rows are appended to."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import attrs
import numpy as np

from structir.backend.steps import OUTSIDE, WORD, MemoryCell, NotPlannedError
from structir.interpret.lists import GrowingList
from structir.interpret.scope import ForeignTensor

OUTPUT, LIST, ROWS = "output", "list", "rows"  # the subclasses of growing values


@attrs.define(eq=False)
class Growing:
    """Memory for a number of elements that is known only at run time.

    Elements are only appended, so only the latest version of the value exists.
    """

    kind: str
    append: Callable[[Any, Any], Any]  # the value after appending an element
    form: tuple[tuple[int, ...], Any] | None = None  # the shape and the dtype of an element
    cell: MemoryCell = attrs.Factory(lambda: MemoryCell(0, OUTSIDE))
    filled: MemoryCell = attrs.Factory(lambda: MemoryCell(WORD))  # holds the number of bytes used
    version: int = 0  # the version of the latest value
    versions: int = 0
    ends: tuple[int, int] = (0, 0)  # the latest versions of the two branches of a conditional
    room: int = 64  # initial capacity in elements; a run that needed more raises it for later ones

    @property
    def value(self) -> Grown:
        """Returns the current value."""
        return Grown(self, self.version)

    def change(self) -> None:
        """Records that the value has changed."""
        self.versions += 1
        self.version = self.versions

    def fits(self, shape: tuple[int, ...], dtype: Any) -> bool:
        """Whether elements may have a form; the first one determines it."""
        if self.form is None:
            self.form = shape, dtype
        return self.form == (shape, dtype) and prod(shape) > 0

    def chosen(self, one: int | None, two: int | None) -> None:
        """Returns the value after a conditional whose branches ended with these versions; None
        where a branch fell back to the host."""
        if one is None or two is None or one == two:
            self.version = next(v for v in (one, two) if v is not None)
        else:
            self.ends = one, two
            self.change()

    def new(self, room: int) -> Any:
        """Allocates memory for elements."""
        shape, dtype = self.form or ((), np.dtype(np.uint8))
        return np.empty((room, *shape), dtype)

    def count(self, size: int) -> int:
        """Returns how many elements a number of bytes holds."""
        shape, dtype = self.form or ((), np.dtype(np.uint8))
        return int(size // (prod(shape) * dtype.itemsize))


class Grown(ForeignTensor, GrowingList):
    """One version of a value that grows."""

    __slots__ = ("dtype", "growing", "kind", "shape", "version")

    def __init__(
        self, growing: Growing, version: int, kind: str = "", rest: tuple[int, ...] | None = None
    ) -> None:
        self.growing, self.version, self.kind = growing, version, kind or growing.kind
        shape, self.dtype = growing.form or ((), None)
        self.shape: Any = (None, *(shape if rest is None else rest))  # the first size is not known

    def side_by_side(self, axis: int, new: bool) -> Grown:
        """Returns the elements of a list as one tensor, stacked along its first axis."""
        shape, _ = self.growing.form or ((), None)
        if self.kind != LIST or axis != 0 or not (new or shape):
            raise NotPlannedError("appending along another axis")
        return Grown(self.growing, self.version, OUTPUT, shape if new else shape[1:])

    def given(self, array: Any) -> Any:
        """Returns the value of its stacked elements."""
        if self.kind == LIST:
            return tuple([array[k, ...] for k in range(len(array))])
        return array.reshape((-1, *self.shape[1:]))

    def __add__(self, items: tuple[Any, ...]) -> Grown:
        """Returns a list with more elements."""
        if self.kind != LIST:
            raise NotPlannedError("expected a list")
        found = self
        for item in items:
            found = self.growing.append(found, item)
        return found

    def _unknown(self, *_: Any, **__: Any) -> Any:
        raise NotPlannedError("a value known only at run time")

    __array__ = __bool__ = __int__ = __float__ = __index__ = __len__ = __iter__ = _unknown
    item = __getitem__ = _unknown


def joined(one: Grown, two: Any) -> Grown:
    """Returns the value after a conditional, where both branches return a growing value."""
    growing = one.growing
    same = isinstance(two, Grown) and two.growing is growing
    if same and one.version == two.version == growing.version and one.kind == two.kind:
        return one
    whole = same and one.kind == two.kind == growing.kind
    if not whole or (one.version, two.version) != growing.ends:
        raise NotPlannedError("a value whose memory has been reused")
    return growing.value

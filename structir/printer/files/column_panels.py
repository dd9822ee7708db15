"""Matrices stored as panels of columns, from which a constant is restored when it is read.

A file of an executable stores the weights that only products read in the panels that the products
read. The panels lie one after the other; each holds some columns, row by row, filled up with
zeros.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import attrs

from structir.lazy import lazy_module
from structir.system.locks import new_lock

np = lazy_module("numpy")

MAX_AXES = 64


@attrs.frozen
class ColumnPanels:
    """How the panels in an array hold a constant: a matrix of `terms` rows, or its transpose."""

    array: str  # the name of the panels
    shape: tuple[int, ...]  # of the constant
    terms: int
    is_transposed: bool  # the constant has the columns of the matrix as its rows
    widths: tuple[int, ...]

    @property
    def columns(self) -> int:
        """The columns of the matrix."""
        return prod(self.shape) // self.terms

    def restored(self, panels: Any) -> Any:
        """Returns the constant."""
        matrix = np.empty((self.terms, self.columns), panels.dtype)
        start = 0
        for width in self.widths:
            stored = panels[start * self.terms : (start + width) * self.terms]
            part = matrix[:, start : start + width]
            part[...] = stored.reshape(self.terms, width)[:, : part.shape[1]]
            start += width
        constant = np.ascontiguousarray(matrix.T if self.is_transposed else matrix)
        constant = constant.reshape(self.shape)
        constant.flags.writeable = False
        return constant

    def fits(self, panels: Any) -> bool:
        """Whether an array has the elements of the panels, and they hold the whole constant."""
        if panels is None or min(self.terms, *self.widths, *self.shape, 1) < 1:
            return False
        columns, remainder = divmod(prod(self.shape), self.terms)
        size = self.terms * sum(self.widths)
        return remainder == 0 and columns <= sum(self.widths) and panels.shape == (size,)


def panels_of_json(name: str, fields: Any) -> ColumnPanels:
    """Returns the panels of a constant from their JSON; raises ValueError for other data."""
    match fields:
        case [str(array), [*shape], int(terms), bool(transposed), [*widths]]:
            integers = [*shape, terms, *widths]
            if widths and len(shape) <= MAX_AXES and all(type(n) is int for n in integers):
                return ColumnPanels(array, tuple(shape), terms, transposed, tuple(widths))
    raise ValueError(f"invalid panels of {name}")


class ModuleArrays(Mapping[str, Any]):
    """The arrays of a file by name. Constants in panels are restored when they are read."""

    def __init__(
        self, arrays: Mapping[str, Any], panels: Mapping[str, ColumnPanels] | None = None
    ) -> None:
        self.arrays, self.panels = arrays, panels or {}
        self._restored: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        self._lock = new_lock()
        if not all(p.fits(arrays.get(p.array)) for p in self.panels.values()):
            raise ValueError("panels of another size")

    def __getitem__(self, name: str) -> Any:
        panels = self.panels.get(name)
        if panels is None:
            return self.arrays[name]
        with self._lock:  # a constant is one array, however often it is read
            constant = self._restored.get(name)
            if constant is None:
                constant = panels.restored(self.arrays[panels.array])
                self._restored[name] = constant
            return constant

    def __iter__(self) -> Iterator[str]:
        return iter([*self.arrays, *self.panels])

    def __len__(self) -> int:
        return len(self.arrays) + len(self.panels)

"""The constraint language: equations, broadcasting, products, windows and side conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import attrs

from structir.ir.polynomial import Dim
from structir.solver.domains.terms import Row

DimMap = Callable[[Dim], Dim]
RowMap = Callable[[Row], Row]


@attrs.frozen(eq=False)
class Constraint:
    """A statement about sizes and rows. `kinds` says of each field, in order, what it holds:
    dim, row, dims, rows or static."""

    kinds: ClassVar[dict[str, str]] = {}
    of_sizes: ClassVar[bool] = True  # whether the sizes in its rows matter to what follows from it

    def dims(self) -> list[Dim]:
        """The sizes that it speaks of directly."""
        found: list[Dim] = []
        for name, kind in self.kinds.items():
            if kind == "dim":
                found.append(getattr(self, name))
            elif kind == "dims":
                found += getattr(self, name)
        return found

    def rows(self) -> list[Row]:
        """The rows that it speaks of."""
        found: list[Row] = []
        for name, kind in self.kinds.items():
            if kind == "row":
                found.append(getattr(self, name))
            elif kind == "rows":
                found += getattr(self, name)
        return found

    def map_terms(self, dim: DimMap, row: RowMap) -> Constraint:
        """The same statement about other terms."""
        fields = [_map_term(getattr(self, name), kind, dim, row) for name, kind in self.kinds.items()]
        return type(self)(*fields)


def _map_term(value: object, kind: str, dim: DimMap, row: RowMap) -> object:
    match kind:
        case "dim":
            return dim(value)  # type: ignore[arg-type]
        case "row":
            return row(value)  # type: ignore[arg-type]
        case "dims":
            return tuple([dim(part) for part in value])  # type: ignore[attr-defined]
        case "rows":
            return tuple([row(part) for part in value])  # type: ignore[attr-defined]
    return value


@attrs.frozen(eq=False)
class DimEq(Constraint):
    """Equal sizes."""

    left: Dim
    right: Dim
    kinds: ClassVar[dict[str, str]] = {"left": "dim", "right": "dim"}


@attrs.frozen(eq=False)
class RowEq(Constraint):
    """Equal rows, axis by axis."""

    left: Row
    right: Row
    kinds: ClassVar[dict[str, str]] = {"left": "row", "right": "row"}
    of_sizes: ClassVar[bool] = False


@attrs.frozen(eq=False)
class DimLe(Constraint):
    """One size broadcasts to another: it is 1 or the same."""

    inner: Dim
    outer: Dim
    kinds: ClassVar[dict[str, str]] = {"inner": "dim", "outer": "dim"}


@attrs.frozen(eq=False)
class RowLe(Constraint):
    """One row broadcasts to another: not longer, and aligned on the right each axis does."""

    inner: Row
    outer: Row
    kinds: ClassVar[dict[str, str]] = {"inner": "row", "outer": "row"}
    of_sizes: ClassVar[bool] = False


@attrs.frozen(eq=False)
class DimJoin(Constraint):
    """A size is the broadcast of others: each broadcasts to it, and it is one of them."""

    outer: Dim
    inners: tuple[Dim, ...]
    kinds: ClassVar[dict[str, str]] = {"outer": "dim", "inners": "dims"}


@attrs.frozen(eq=False)
class RowJoin(Constraint):
    """A row is the broadcast of others."""

    outer: Row
    inners: tuple[Row, ...]
    kinds: ClassVar[dict[str, str]] = {"outer": "row", "inners": "rows"}


@attrs.frozen(eq=False)
class RankLe(Constraint):
    """A row has at most as many axes as another."""

    shorter: Row
    longer: Row
    kinds: ClassVar[dict[str, str]] = {"shorter": "row", "longer": "row"}
    of_sizes: ClassVar[bool] = False


@attrs.frozen(eq=False)
class Prod(Constraint):
    """Two rows have the same number of elements."""

    left: Row
    right: Row
    kinds: ClassVar[dict[str, str]] = {"left": "row", "right": "row"}


@attrs.frozen(eq=False)
class Reverse(Constraint):
    """A row is another one read backwards."""

    forward: Row
    backward: Row
    kinds: ClassVar[dict[str, str]] = {"forward": "row", "backward": "row"}
    of_sizes: ClassVar[bool] = False


@attrs.frozen(eq=False)
class Window(Constraint):
    """`outer == (inner + pad - dilation * (kernel - 1) - 1) // stride + 1`, and the window fits.

    `pad` counts both sides together; where positions are rounded up it has `stride - 1` added.
    """

    outer: Dim
    inner: Dim
    kernel: Dim
    stride: int
    pad: int
    dilation: int
    kinds: ClassVar[dict[str, str]] = {
        "outer": "dim",
        "inner": "dim",
        "kernel": "dim",
        "stride": "static",
        "pad": "static",
        "dilation": "static",
    }

    def span(self, inner: Dim, kernel: Dim) -> Dim:
        """How far the window may move; negative where it is wider than its axis."""
        return inner + kernel * -self.dilation + (self.pad + self.dilation - 1)


@attrs.frozen(eq=False)
class Sum(Constraint):
    """A size is the sum of others laid end to end along one axis; ragged if one of them is."""

    total: Dim
    parts: tuple[Dim, ...]
    kinds: ClassVar[dict[str, str]] = {"total": "dim", "parts": "dims"}


@attrs.frozen(eq=False)
class Ge(Constraint):
    """A size is at least an integer."""

    dim: Dim
    least: int
    kinds: ClassVar[dict[str, str]] = {"dim": "dim", "least": "static"}


@attrs.frozen(eq=False)
class Ne(Constraint):
    """Two sizes differ."""

    left: Dim
    right: Dim
    kinds: ClassVar[dict[str, str]] = {"left": "dim", "right": "dim"}


@attrs.frozen(eq=False)
class Divides(Constraint):
    """A size is a multiple of an integer."""

    factor: int
    dim: Dim
    kinds: ClassVar[dict[str, str]] = {"factor": "static", "dim": "dim"}


@attrs.frozen(eq=False)
class Label(Constraint):
    """An axis carries a label; its size is a variable of its own."""

    axis: Dim
    label: str
    kinds: ClassVar[dict[str, str]] = {"axis": "dim", "label": "static"}


@attrs.frozen(eq=False)
class When(Constraint):
    """Once a row's rank is known, `emit` says what holds of it and of other rows."""

    row: Row
    others: tuple[Row, ...]
    emit: Callable[[Row, tuple[Row, ...]], list[Constraint]]
    kinds: ClassVar[dict[str, str]] = {"row": "row", "others": "rows", "emit": "static"}
    of_sizes: ClassVar[bool] = False

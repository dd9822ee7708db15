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
    """A relation between sizes and rows.

    `kinds` maps each field, in order, to its content: dim, row, dims, rows or static.
    """

    kinds: ClassVar[dict[str, str]] = {}
    of_sizes: ClassVar[bool] = True  # whether its rule depends on the sizes in its rows

    def dims(self) -> list[Dim]:
        """Returns the sizes among its fields."""
        dims: list[Dim] = []
        for name, kind in self.kinds.items():
            if kind == "dim":
                dims.append(getattr(self, name))
            elif kind == "dims":
                dims += getattr(self, name)
        return dims

    def rows(self) -> list[Row]:
        """Returns the rows among its fields."""
        rows: list[Row] = []
        for name, kind in self.kinds.items():
            if kind == "row":
                rows.append(getattr(self, name))
            elif kind == "rows":
                rows += getattr(self, name)
        return rows

    def map_terms(self, dim: DimMap, row: RowMap) -> Constraint:
        """Returns the constraint with `dim` and `row` applied to its terms."""
        fields = [
            _map_term(getattr(self, name), kind, dim, row) for name, kind in self.kinds.items()
        ]
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
    """Two sizes are equal."""

    left: Dim
    right: Dim
    kinds: ClassVar[dict[str, str]] = {"left": "dim", "right": "dim"}


@attrs.frozen(eq=False)
class RowEq(Constraint):
    """Two rows are equal, axis by axis."""

    left: Row
    right: Row
    kinds: ClassVar[dict[str, str]] = {"left": "row", "right": "row"}
    of_sizes: ClassVar[bool] = False


@attrs.frozen(eq=False)
class DimLe(Constraint):
    """One size broadcasts to another: it is 1 or equal."""

    inner: Dim
    outer: Dim
    kinds: ClassVar[dict[str, str]] = {"inner": "dim", "outer": "dim"}


@attrs.frozen(eq=False)
class RowLe(Constraint):
    """One row broadcasts to another: it is not longer, and each axis broadcasts, right-aligned."""

    inner: Row
    outer: Row
    kinds: ClassVar[dict[str, str]] = {"inner": "row", "outer": "row"}
    of_sizes: ClassVar[bool] = False


@attrs.frozen(eq=False)
class DimJoin(Constraint):
    """A size is the broadcast of others: each broadcasts to it, and it equals one of them."""

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
    """A row is the reverse of another."""

    forward: Row
    backward: Row
    kinds: ClassVar[dict[str, str]] = {"forward": "row", "backward": "row"}
    of_sizes: ClassVar[bool] = False


@attrs.frozen(eq=False)
class Window(Constraint):
    """`outer == (inner + pad - dilation * (kernel - 1) - 1) // stride + 1`, and the window fits.

    `pad` is the sum of both sides; ceil mode adds `stride - 1` to it.
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
        """Returns the distance that the window can move; negative if it is wider than its axis."""
        return inner + kernel * -self.dilation + (self.pad + self.dilation - 1)


@attrs.frozen(eq=False)
class Sum(Constraint):
    """A size is the sum of sizes concatenated along one axis; ragged if one of them is."""

    total: Dim
    parts: tuple[Dim, ...]
    kinds: ClassVar[dict[str, str]] = {"total": "dim", "parts": "dims"}


@attrs.frozen(eq=False)
class AxisStack(Constraint):
    """An axis of tensors that are concatenated along another one.

    Sizes are equal. If one part is ragged, the total is, and the other parts have any size.
    """

    total: Dim
    parts: tuple[Dim, ...]
    kinds: ClassVar[dict[str, str]] = {"total": "dim", "parts": "dims"}


@attrs.frozen(eq=False)
class RowStack(Constraint):
    """The axes before or after the one along which tensors are concatenated; see `AxisStack`."""

    total: Row
    parts: tuple[Row, ...]
    kinds: ClassVar[dict[str, str]] = {"total": "row", "parts": "rows"}


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
class AxisVariable(Constraint):
    """A variable represents an axis; its size, which other constraints give, may be 0."""

    axis: Dim
    kinds: ClassVar[dict[str, str]] = {"axis": "dim"}


@attrs.frozen(eq=False)
class Label(Constraint):
    """An axis has a label; its size is a separate variable."""

    axis: Dim
    label: str
    kinds: ClassVar[dict[str, str]] = {"axis": "dim", "label": "static"}


@attrs.frozen(eq=False)
class When(Constraint):
    """Once the rank of a row is known, `emit` returns the constraints on it and on other rows."""

    row: Row
    others: tuple[Row, ...]
    emit: Callable[[Row, tuple[Row, ...]], list[Constraint]]
    kinds: ClassVar[dict[str, str]] = {"row": "row", "others": "rows", "emit": "static"}
    of_sizes: ClassVar[bool] = False

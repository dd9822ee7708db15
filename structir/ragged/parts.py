"""The parts of a ragged tensor in a program: its values and its rows."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import attrs

from structir.analysis.axes import axes_of
from structir.build import BlockBuilder
from structir.ir.axes import AnySize, Ragged, size_in
from structir.ir.dims import Dim, Poly, sym
from structir.ir.expr import Expr, PrimValue, ShapeExpr, Var
from structir.ir.struct_info import TensorStructInfo
from structir.ops.broadcast import subtract
from structir.ops.ragged import (
    check_ragged,
    from_values,
    label_of,
    row_limits,
    row_starts,
    same_rows,
    values,
)
from structir.ops.reshape import reshape
from structir.ops.segments import segment_ids

Dims = tuple[Dim, ...]


@attrs.define(eq=False)
class Rows:
    """The rows of ragged tensors with equal offsets.

    `keys` identify their origin: rows with a common key are equal. `starts` and `limits` have the
    axes before the ragged one, and `flat` has both as vectors. Rows begin at 0 and follow each
    other, as those of a RaggedArray. Those of `from_values` are checked to do so.
    """

    keys: set[Any]
    leading: Dims
    total: Dim
    starts: Expr
    limits: Expr
    label: str = ""
    flat: tuple[Expr, Expr] | None = None
    lengths: Expr | None = None

    @property
    def count(self) -> Dim:
        """The number of rows."""
        return prod(self.leading)


@attrs.define(eq=False)
class RaggedParts:
    """A ragged tensor: its values, of all rows, and its rows."""

    values: Expr
    rows: Rows
    tensor: Expr | None = None  # the tensor itself, if it is bound to a variable

    @property
    def inner(self) -> Dims:
        """The sizes of the axes after the ragged one."""
        dims: Any = self.values.struct_info.dims
        return dims[1:]  # type: ignore[no-any-return]

    @property
    def struct_info(self) -> TensorStructInfo:
        """The StructInfo of the ragged tensor."""
        info: Any = self.values.struct_info
        axes = (*self.rows.leading, Ragged(self.rows.label), *self.inner)
        return TensorStructInfo(None, info.element, len(axes), axes)

    def dense_info(self, sizes: Dims) -> TensorStructInfo:
        """Returns the StructInfo of a tensor with these sizes of the axes up to the ragged one."""
        info: Any = self.values.struct_info
        return TensorStructInfo((*sizes, *self.inner), info.element)


class PartsScope:
    """The parts of ragged variables in one scope of a function under construction."""

    def __init__(self, builder: BlockBuilder) -> None:
        self.builder = builder
        self.parts: dict[Expr, RaggedParts] = {}
        self.rows: dict[Any, Rows] = {}
        self.known: dict[tuple[Any, str], Any] = {}  # what is computed from rows or parts here

    def copy(self) -> PartsScope:
        """Returns the scope of a branch: what it binds is not visible outside of it."""
        inner = PartsScope(self.builder)
        copies = {id(r): attrs.evolve(r, keys=set(r.keys)) for r in self.rows.values()}
        copies |= {id(p.rows): copies.get(id(p.rows)) or p.rows for p in self.parts.values()}
        inner.rows = {key: copies[id(rows)] for key, rows in self.rows.items()}
        inner.known = dict(self.known)
        inner.parts = {
            var: attrs.evolve(parts, rows=copies[id(parts.rows)])
            for var, parts in self.parts.items()
        }
        return inner

    def emit(self, value: Expr) -> Expr:
        """Binds an expression to a variable."""
        return self.builder.emit(value)

    # ---- rows and parts

    def parts_of(self, x: Expr) -> RaggedParts:
        """Returns the parts of a variable with a ragged axis."""
        if x not in self.parts:
            self.parts[x] = self._parts(x)
        return self.parts[x]

    def _parts(self, x: Expr) -> RaggedParts:
        info: Any = x.struct_info
        position = check_ragged(info)
        label = label_of(info)
        key = ("name", label) if label else x
        rows = self.rows.get(key)
        flat = self.emit(values(x))
        inner = tuple([_known_size(size_in(a), "k") for a in info.axes[position + 1 :]])
        total = sym("t") if rows is None else rows.total
        cast = TensorStructInfo((total, *inner), info.element)
        flat = self.builder.match_cast(flat, cast, f"{_name(x)}_values")
        if rows is None:
            leading = tuple([_known_size(size_in(a), "n") for a in info.axes[:position]])
            starts = self._rows_vector(row_starts(x), leading, f"{_name(x)}_starts")
            limits = self._rows_vector(row_limits(x), leading, f"{_name(x)}_limits")
            rows = Rows({key}, leading, total, starts, limits, label)
            rows = self.add_rows(rows)
        return RaggedParts(flat, rows, x)

    def _rows_vector(self, value: Expr, leading: Dims, name: str) -> Expr:
        vector = self.builder.emit(value, name)
        info: Any = vector.struct_info
        if isinstance(info.dims, tuple):
            return vector
        return self.builder.match_cast(vector, TensorStructInfo(leading, "int64"))

    def add_rows(self, rows: Rows) -> Rows:
        """Remembers rows by their keys."""
        for key in rows.keys:
            self.rows[key] = rows
        return rows

    def flat_rows(self, rows: Rows) -> tuple[Expr, Expr]:
        """Returns the starts and the limits of rows as vectors."""
        if rows.flat is not None:
            return rows.flat
        if len(rows.leading) == 1:
            return rows.starts, rows.limits
        shape = ShapeExpr((rows.count,))
        vectors = (reshape(rows.starts, shape), reshape(rows.limits, shape))
        flat: tuple[Expr, Expr] = self._once(rows, "flat", lambda: tuple(map(self.emit, vectors)))
        return flat

    def _once(self, owner: Any, name: str, compute: Callable[[], Any]) -> Any:
        """Returns what is computed from rows or parts; it is visible in this scope."""
        if (owner, name) not in self.known:
            self.known[owner, name] = compute()
        return self.known[owner, name]

    def ids(self, rows: Rows) -> Expr:
        """Returns the row of each value."""
        flat = self.flat_rows(rows)
        ids: Expr = self._once(
            rows, "ids", lambda: self.emit(segment_ids(*flat, PrimValue(rows.total)))
        )
        return ids

    def lengths(self, rows: Rows) -> Expr:
        """Returns the length of each row, as a vector."""
        if rows.lengths is not None:
            return rows.lengths
        starts, limits = self.flat_rows(rows)
        lengths: Expr = self._once(rows, "lengths", lambda: self.emit(subtract(limits, starts)))
        return lengths

    def with_rows(self, x: RaggedParts, rows: Rows, where: str) -> RaggedParts:
        """Returns a ragged tensor over other rows, which are checked to be equal at run time."""
        if x.rows is rows or x.rows.keys & rows.keys:
            return x if x.rows is rows else attrs.evolve(x, rows=rows)
        own = x.rows
        checked = self.emit(
            same_rows(x.values, rows.starts, rows.limits, own.starts, own.limits, where=where)
        )
        info = TensorStructInfo((rows.total, *x.inner), x.values.struct_info.element)
        return RaggedParts(self.builder.match_cast(checked, info), rows)

    def tensor(self, x: RaggedParts) -> Expr:
        """Returns the ragged tensor as a variable."""
        if x.tensor is not None:
            return x.tensor
        rows = x.rows
        value = from_values(x.values, rows.starts, rows.limits, name=rows.label)
        var: Expr = self._once(x, "tensor", lambda: self.emit(value))
        self.parts[var] = x
        return var


def _known_size(axis: Any, stem: str) -> Dim:
    return sym(stem) if type(axis) is AnySize else axis


def with_all_sizes(info: TensorStructInfo) -> TensorStructInfo:
    """Returns a dense tensor of known rank with new dims for its unknown sizes."""
    axes = axes_of(info)
    plain = axes is not None and all([type(size_in(a)) in (int, Poly, AnySize) for a in axes])
    if axes is None or not plain or isinstance(info.dims, tuple):
        return info
    sizes = tuple([_known_size(size_in(axis), "k") for axis in axes])
    return TensorStructInfo(sizes, info.element)


def _name(x: Expr) -> str:
    return x.name if isinstance(x, Var) else "x"


def is_size(value: Any) -> bool:
    """Returns whether a value is a size."""
    return type(value) is int or type(value) is Poly

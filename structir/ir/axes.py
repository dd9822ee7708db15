"""Axes beyond plain sizes: row variables, ragged axes, labelled axes and unknown sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any, TypeAlias

import attrs

from structir.ir.dim_text import display_name
from structir.ir.node import Node
from structir.ir.polynomial import Dim, Poly, Sym

_ORDERS = count()


class RowVar:
    """A row variable: a sequence of axes of unknown length. It equals only itself."""

    __slots__ = ("name", "order", "sizes")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.sizes: dict[str, Sym] = {}  # `elements(*s)` and `rank(*s)`, created on first use
        self.order = next(_ORDERS)

    def __repr__(self) -> str:
        return f"*{display_name(self) or f'r{self.order}'}"

    def __iter__(self) -> Iterator[RowVar]:
        """Yields the row variable itself, for `(*s, "n")` in Python."""
        yield self

    def __copy__(self) -> RowVar:
        return self

    def __deepcopy__(self, memo: object) -> RowVar:
        return self


@attrs.frozen(repr=False)
class Ragged:
    """An axis whose length varies along other axes; equal names mean equal lengths."""

    name: str = ""


@attrs.frozen(repr=False)
class AnySize:
    """An axis of unknown size."""


@attrs.frozen(repr=False)
class Labelled(Node):
    """An axis with a label, which is not part of its size."""

    size: Dim | Ragged | AnySize
    label: str


Axis: TypeAlias = Dim | RowVar | Ragged | AnySize | Labelled
Axes: TypeAlias = tuple[Axis, ...]


class UnresolvedAxes(tuple[Any, ...]):
    """Parsed axes, before they are resolved to plain sizes or rows."""

    __slots__ = ()


def is_anonymous(name: str) -> bool:
    """Whether a name was generated for an anonymous size `_`."""
    return name[:1] == "_" and name[1:].replace("_", "").isdigit()


def rows_in(axes: Iterable[Any]) -> list[RowVar]:
    """Returns the row variables among axes in order."""
    return [axis for axis in axes if type(axis) is RowVar]


def size_in(axis: Any) -> Any:
    """Returns the size of an axis without its label."""
    return axis.size if type(axis) is Labelled else axis


def fields_of(axes: Axes) -> dict[str, Any]:
    """Returns the fields of a tensor: sizes if all axes are plain, else the axes themselves."""
    sizes = tuple(map(size_in, axes))
    plain = all([type(size) is int or type(size) is Poly for size in sizes])
    return {
        "dims": sizes if plain else None,
        "ndim": None if rows_in(sizes) else len(sizes),
        "axes": None if plain and sizes == axes else axes,
    }

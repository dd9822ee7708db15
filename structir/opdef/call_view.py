"""What a line function sees of a call, and what it gives: the infos and attributes, and a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import attrs

from structir.ir.expr import Expr
from structir.ir.struct_info import ShapeStructInfo, TensorStructInfo
from structir.opdef.axis_packs import InvalidCall, normal_axis
from structir.opdef.shape_plan import Dims


@attrs.frozen
class ResolvedSignature:
    """What a line function gives: the line, its side conditions, and attributes it has worked
    out. A line that states only `sizes` does not tell which elements are read and written."""

    line: str
    where: str = ""
    on: str = ""
    attributes: Mapping[str, Any] = attrs.Factory(dict)
    sizes: bool = False


@attrs.frozen(eq=False)
class UnknownShape:
    """The value of a shape attribute that is only known at run time."""

    value: Expr
    ndim: int | None


@attrs.frozen(eq=False)
class CallView:
    """What a call gives: the infos of its operands and its attributes, by the names of the
    signature."""

    op: str
    operands: Mapping[
        str, Any
    ]  # a TensorStructInfo, a tuple of them for a list, None where left out
    attributes: Mapping[str, Any]
    args: tuple[Expr, ...] = ()

    def __getitem__(self, name: str) -> Any:
        return self.attributes[name]

    def info(self, name: str) -> Any:
        """What is known of an operand."""
        return self.operands[name]

    def rank(self, name: str) -> int | None:
        """The number of axes of an operand; None where unknown."""
        info = self.operands[name]
        return None if info is None else info.ndim

    def dims(self, name: str) -> Dims | None:
        """The sizes of an operand; None where unknown."""
        info = self.operands[name]
        return None if info is None else known_dims(info)

    def ranks(self, name: str) -> tuple[int | None, ...]:
        """The ranks of a list of operands."""
        return tuple([info.ndim for info in self.operands[name]])

    def axis(self, name: str, rank: int) -> int:
        """An axis attribute, counted from the front and in range."""
        axis: int = self.attributes[name]
        return normal_axis(axis, rank, self.first)

    def axes(self, name: str, rank: int) -> tuple[int, ...]:
        """An attribute of axes, counted from the front, in range and distinct; None means all."""
        value = self.attributes[name]
        if value is None:
            return tuple(range(rank))
        found = [
            normal_axis(a, rank, self.first)
            for a in ((value,) if isinstance(value, int) else value)
        ]
        if len(set(found)) != len(found):
            self.reject(f"{name} names an axis twice: {value}")
        return tuple(found)

    @property
    def first(self) -> str:
        """The name of the first operand."""
        return next(iter(self.operands), "the result")

    def reject(self, message: str, hint: str | None = None, code: str = "") -> NoReturn:
        """Raises the error of an invalid call."""
        raise InvalidCall(message, (), hint, code)


def known_dims(info: TensorStructInfo) -> Dims | None:
    """The sizes of a tensor: its own, or those of the shape variable that it has."""
    if type(info.dims) is tuple:
        return info.dims
    held = getattr(info.dims, "struct_info", None)
    return held.dims if isinstance(held, ShapeStructInfo) else None

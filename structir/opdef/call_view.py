"""Argument and result types of functions that compute index signatures for calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import attrs

from structir.ir.dtype import int_limits, is_int
from structir.ir.expr import Expr
from structir.ir.struct_info import known_dims
from structir.opdef.axis_packs import InvalidCall, normal_axis
from structir.opdef.shape_plan import Dims


@attrs.frozen
class ResolvedSignature:
    """An index signature computed for one call, with side conditions and computed attributes.

    With `sizes` the signature determines shapes only, not the elements that are read and written.
    """

    index_signature: str
    where: str = ""
    on: str = ""
    attributes: Mapping[str, Any] = attrs.Factory(dict)
    sizes: bool = False
    nouns: Mapping[str, str] = attrs.Factory(dict)  # nouns for index variables in messages


@attrs.frozen(eq=False)
class UnknownShape:
    """A shape attribute with a run-time value."""

    value: Expr
    ndim: int | None


@attrs.frozen(eq=False)
class CallView:
    """The operand StructInfos and the attributes of a call, by parameter name."""

    op: str
    operands: Mapping[str, Any]  # TensorStructInfo, a tuple of them for a list, None if omitted
    attributes: Mapping[str, Any]
    args: tuple[Expr, ...] = ()
    constants: Mapping[str, Any] = attrs.Factory(dict)  # arrays of operands; lists have several

    def __getitem__(self, name: str) -> Any:
        return self.attributes[name]

    def info(self, name: str) -> Any:
        """Returns the StructInfo of an operand."""
        return self.operands[name]

    def rank(self, name: str) -> int | None:
        """Returns the rank of an operand, or None where unknown."""
        info = self.operands[name]
        return None if info is None else info.ndim

    def dims(self, name: str) -> Dims | None:
        """Returns the dims of an operand, or None where unknown."""
        info = self.operands[name]
        return None if info is None else known_dims(info)

    def ranks(self, name: str) -> tuple[int | None, ...]:
        """Returns the ranks of the members of a list operand."""
        return tuple([info.ndim for info in self.operands[name]])

    def axis(self, name: str, rank: int) -> int:
        """Returns an axis attribute normalized to `0 <= axis < rank`."""
        axis: int = self.attributes[name]
        return normal_axis(axis, rank, self.first)

    def axes(self, name: str, rank: int) -> tuple[int, ...]:
        """Returns an axes attribute normalized and checked to be distinct; None means all axes."""
        value = self.attributes[name]
        if value is None:
            return tuple(range(rank))
        axis_list = (value,) if isinstance(value, int) else value
        axes = tuple([normal_axis(a, rank, self.first) for a in axis_list])
        if len(set(axes)) != len(axes):
            unique = list(dict.fromkeys(axes))
            self.reject(
                f"{name}: expected distinct axes, found {value}", f"write `{name}={unique}`"
            )
        return axes

    @property
    def first(self) -> str:
        """Returns the name of the first operand."""
        return next(iter(self.operands), "the result")

    def index_condition(self, operand: str, indices: Any, variable: str, size: Any) -> str:
        """Returns the condition that constant indices of an operand are inside of an axis.

        It is empty if the indices are not constant. `variable` is the index variable of the axis,
        and `size` its size or None. Raises the error of the call for an index out of range.
        """
        if indices is None or not indices.size:
            return ""
        lowest, highest = int(indices.min()), int(indices.max())
        beyond = highest if isinstance(size, int) and highest >= size else None
        wrong = lowest if lowest < 0 else beyond
        if wrong is not None:
            inside = f"from 0 to {size - 1}" if isinstance(size, int) else "of at least 0"
            of_axis = f" for an axis of size {size}" if isinstance(size, int) else ""
            from_end = isinstance(size, int) and 0 <= wrong + size < size
            hint = f"write an index {inside}"
            if from_end:
                hint = f"count from the start: {wrong + size}"
            self.reject(f"{operand}: expected indices {inside}{of_axis}, found {wrong}", hint)
        return f"{variable} >= {highest + 1}"

    def check_number(self, name: str, operand: str) -> None:
        """Raises the error of a number that the integer dtype of an operand does not represent."""
        dtype, value = self.operands[operand].dtype, self.attributes[name]
        if dtype is None or not is_int(dtype):
            return
        least, greatest = int_limits(dtype)
        if not least <= value <= greatest:
            self.reject(*out_of_range(name, value, dtype), "E0305")

    def reject(self, message: str, hint: str | None = None, code: str = "") -> NoReturn:
        """Raises the error of an invalid call."""
        raise InvalidCall(message, (), hint, code or "E0308")


def rank_hint(name: str, rank: int, expected: int) -> str:
    """Returns the edit for an operand with too few or too many axes; `diagnostics` replaces
    `{arg NAME}` by the source of the operand."""
    argument = f"{{arg {name}}}"
    if rank < expected:
        return f"add axes: `R.expand_dims({argument}, axis={list(range(expected - rank))})`"
    sizes = ", ".join(["-1", *["1"] * (expected - 1)])
    shape = f"({sizes}{',' * (expected == 1)})"
    return f"merge axes, `R.reshape({argument}, {shape})`, or map over them: `R.vmap`"


def out_of_range(name: str, value: float, dtype: str) -> tuple[str, str]:
    """Returns the message and the hint for a number that an integer dtype does not represent."""
    message = f"{name}: expected a value in the range of {dtype}, found {value}"
    return message, "write a number from {} to {}".format(*int_limits(dtype))

"""Kinds of attributes: the values that a parameter accepts, and their normalized form.

The annotation of a parameter of an op's body is its kind:

    def softmax(x: Expr, axis: Axis = -1) -> Expr: ...

`Size` and `Sizes` may be symbolic or known only at run time, so they are arguments of the call. All
other kinds are static attributes.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Annotated, Any

import attrs

from structir.errors import DiagnosticError
from structir.ir.dims import Dim, Poly, as_dim
from structir.ir.dtype import DTYPES, dtype_hint
from structir.ir.expr import DataTypeImm, Expr, PrimValue, ShapeExpr, StringImm, Tuple
from structir.ir.struct_info import MAX_RANK, PrimStructInfo, ShapeStructInfo
from structir.ir.vdevice import as_vdevice

MAX_INTEGERS = 4096  # of one attribute


class InvalidAttribute(Exception):
    """A value that an attribute does not accept; the message, if any, is a hint."""


@attrs.frozen(eq=False)
class AttributeKind:
    """The kind of an attribute; `normalize` raises InvalidAttribute for a value it rejects."""

    expected: str
    normalize: Callable[[Any], Any]
    is_argument: bool = False  # the value may be symbolic: it is an argument of the call


def _unwrap_literal(value: Any) -> Any:
    """Returns the Python value of a literal expression."""
    if isinstance(value, PrimValue | StringImm | DataTypeImm):
        return value.value
    if isinstance(value, ShapeExpr):
        return value.dims
    if isinstance(value, Tuple):
        return tuple([_unwrap_literal(field) for field in value.fields])
    return value


def _int(value: Any) -> int:
    value = _unwrap_literal(value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidAttribute
    return int(value)


def _ints(value: Any) -> tuple[int, ...]:
    value = _unwrap_literal(value)
    if not isinstance(value, tuple | list):
        return (_int(value),)
    if len(value) > MAX_INTEGERS:
        raise InvalidAttribute(f"pass at most {MAX_INTEGERS} integers, found {len(value)}")
    return tuple([_int(item) for item in value])


def _axis(value: Any) -> int:
    axis = _int(value)
    if not -MAX_RANK <= axis < MAX_RANK:
        raise InvalidAttribute(f"write an axis from {-MAX_RANK} to {MAX_RANK - 1}")
    return axis


def _axes(value: Any) -> int | tuple[int, ...]:
    value = _unwrap_literal(value)
    return tuple(map(_axis, _ints(value))) if isinstance(value, tuple | list) else _axis(value)


def _counts(value: Any) -> int | tuple[int, ...]:
    value = _unwrap_literal(value)
    return _ints(value) if isinstance(value, tuple | list) else _int(value)


def _float(value: Any) -> float:
    value = _unwrap_literal(value)
    if isinstance(value, bool | str | Expr | Poly) or not hasattr(value, "__float__"):
        raise InvalidAttribute
    return float(value)


def _number(value: Any) -> int | float:
    value = _unwrap_literal(value)
    if isinstance(value, bool):
        raise InvalidAttribute
    return int(value) if hasattr(value, "__index__") else _float(value)


def _numbers(value: Any) -> tuple[int | float, ...]:
    value = _unwrap_literal(value)
    if not isinstance(value, tuple | list):
        raise InvalidAttribute
    return tuple([_number(item) for item in value])


def _bool(value: Any) -> bool:
    value = _unwrap_literal(value)
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    raise InvalidAttribute


def _string(value: Any) -> str:
    value = _unwrap_literal(value)
    if not isinstance(value, str):
        raise InvalidAttribute
    return value


def _one_of(choices: frozenset[str]) -> Callable[[Any], str]:
    def normalize(value: Any) -> str:
        if (string := _string(value)) not in choices:
            raise InvalidAttribute
        return string

    return normalize


def _dtype(value: Any) -> str:
    if (string := _string(value)) not in DTYPES:
        raise InvalidAttribute(dtype_hint(string))
    return string


def _vdevice(value: Any) -> str:
    try:
        vdevice = as_vdevice(_unwrap_literal(value))
    except DiagnosticError as error:
        raise InvalidAttribute from error
    if vdevice is None:
        raise InvalidAttribute
    return str(vdevice)


def _size(value: Any) -> Expr:
    if isinstance(value, Expr):
        info = value.struct_info
        scalar = getattr(info, "ndim", None) == 0 or isinstance(info, PrimStructInfo)
        if not scalar:
            raise InvalidAttribute
        return value
    if isinstance(value, bool | float | str | tuple | list) or value is None:
        raise InvalidAttribute
    try:
        return PrimValue(as_dim(value))
    except DiagnosticError as error:
        raise InvalidAttribute from error


def _scalar(value: Any) -> Expr:
    return PrimValue(value) if isinstance(value, float) else _size(value)


def _sizes(value: Any) -> Expr:
    value = _unwrap_literal(value)
    if isinstance(value, Expr):
        if not isinstance(value.struct_info, ShapeStructInfo):
            raise InvalidAttribute
        return value
    try:
        return ShapeExpr(tuple([_dim(item) for item in value]))
    except TypeError as error:
        raise InvalidAttribute from error


def _dim(value: Any) -> Dim:
    value = _unwrap_literal(value)
    if type(value) is int or type(value) is Poly:
        return value
    if isinstance(value, bool | float | str | tuple | list | Expr) or value is None:
        raise InvalidAttribute
    return as_dim(value)


def _size_or_sizes(value: Any) -> Expr:
    if isinstance(value, tuple | list | Tuple) or (
        isinstance(value, Expr) and isinstance(value.struct_info, ShapeStructInfo)
    ):
        return _sizes(value)
    return _size(value)


SIZES = AttributeKind("a shape: a tuple of sizes", _sizes, True)
SIZE = AttributeKind("a size: an integer or a symbolic expression", _size, True)

Axis = Annotated[int, AttributeKind("an axis: an integer", _axis)]
Axes = Annotated[int | tuple[int, ...], AttributeKind("an axis or a list of axes", _axes)]
Ints = Annotated[tuple[int, ...], AttributeKind("an integer or a list of integers", _ints)]
Numbers = Annotated[tuple[float, ...], AttributeKind("a list of numbers", _numbers)]
Counts = Annotated[
    int | tuple[int, ...], AttributeKind("an integer or a list of integers", _counts)
]
Size = Annotated[Dim, SIZE]
Scalar = Annotated[Dim | float, AttributeKind("a number or a symbolic size", _scalar, True)]
Sizes = Annotated[tuple[Dim, ...], SIZES]
SizeOrSizes = Annotated[Any, AttributeKind("a size or a tuple of sizes", _size_or_sizes, True)]
DType = Annotated[str, AttributeKind("a dtype, such as float32", _dtype)]
Device = Annotated[str, AttributeKind('a vdevice, such as "cuda:0"', _vdevice)]
Layout = Annotated[str, AttributeKind("a layout, such as NCHW", _string)]
Number = Annotated[int | float, AttributeKind("a number", _number)]
Operands = Annotated[tuple[Any, ...], "operands"]  # a list of operands

KINDS_BY_TYPE: dict[Any, AttributeKind] = {
    int: AttributeKind("an integer", _int),
    float: AttributeKind("a number", _float),
    bool: AttributeKind("True or False", _bool),
    str: AttributeKind("a string", _string),
}


def dtype_among(names: str) -> AttributeKind:
    """Returns the kind of an attribute whose values are the dtypes in `names`."""
    return AttributeKind(f"one of {names.replace(' ', ', ')}", _one_of(frozenset(names.split())))


def kind_of(annotation: Any) -> AttributeKind | None:
    """Returns the attribute kind of an annotation, or None for an operand."""
    if annotation in KINDS_BY_TYPE:
        return KINDS_BY_TYPE[annotation]
    if isinstance(annotation, AttributeKind):
        return annotation
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        choices = typing.get_args(annotation)
        return AttributeKind(f"one of {', '.join(map(repr, choices))}", _one_of(frozenset(choices)))
    if origin is Annotated:
        metadata = annotation.__metadata__[0]
        return metadata if isinstance(metadata, AttributeKind) else None
    candidates = [kind_of(part) for part in typing.get_args(annotation) if part is not type(None)]
    kinds = [kind for kind in candidates if kind is not None]
    return kinds[0] if kinds else None

"""Functions of integers and bits, and of the representation of floats."""

from __future__ import annotations

from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.frontend.iterated_functions import greatest_common_divisor
from structir.frontend.special_functions import bessel_i, next_after
from structir.ir.expr import ShapeExpr
from structir.numpy import creation, elementwise, reductions, shaping
from structir.tracing import dtypes
from structir.tracing.array import TracedArray, cast, emit, expression, operand, promoted
from structir.tracing.context import session, traced


def _integers(name: str, x1: Any, x2: Any) -> tuple[list[TracedArray], str]:
    """Returns integers in int64 and one shape, and their dtype; raises an error for floats."""
    arrays, _ = promoted(x1, x2)
    dtype = arrays[0].dtype_name
    if dtypes.category(dtype) != dtypes.INTEGER:
        message = f"{name}: expected integers, found {dtype}"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    return shaping.broadcast_arrays(*[cast(a, "int64") for a in arrays]), dtype


@traced
def gcd(x1: Any, x2: Any) -> TracedArray:
    """Returns the greatest common divisors of integers."""
    (a, b), dtype = _integers("gcd", x1, x2)
    divisor = greatest_common_divisor(session().builder, expression(a), expression(b))
    return cast(emit(divisor), dtype)


@traced
def lcm(x1: Any, x2: Any) -> TracedArray:
    """Returns the least common multiples of integers; 0 where one is 0."""
    (a, b), dtype = _integers("lcm", x1, x2)
    divisor = emit(greatest_common_divisor(session().builder, expression(a), expression(b)))
    quotient = elementwise.abs(a) // elementwise.where(divisor == 0, 1, divisor)
    return cast(quotient * elementwise.abs(b), dtype)


@traced
def nextafter(x: Any, y: Any, /) -> TracedArray:
    """Returns the floats next to x in the direction of y."""
    (a, b), _ = elementwise.real_operands(x, y)
    a, b = shaping.broadcast_arrays(a, b)
    values = expression(a), expression(b)
    return emit(next_after(*values, ShapeExpr(a.dims), a.dtype_name, session().builder.emit))


@traced
def spacing(x: Any, /) -> TracedArray:
    """Returns the distance of floats to the next one away from 0, with their sign."""
    array = elementwise.real(x)
    away = elementwise.where(array < 0, -float("inf"), float("inf"))
    result = nextafter(array, away) - array
    return elementwise.where(elementwise.isinf(array), float("nan"), result)


@traced
def i0(x: Any) -> TracedArray:
    """Returns the modified Bessel function of order 0."""
    array = elementwise.real(x)
    wide = expression(cast(array, "float64"))
    return cast(emit(bessel_i(wide, 0, False, session().builder.emit)), array.dtype_name)


def _byte_order(name: str, bitorder: str) -> list[int]:
    """Returns the shifts of the bits of a byte. Raises DiagnosticError for another order."""
    shifts = {"big": [7, 6, 5, 4, 3, 2, 1, 0], "little": [0, 1, 2, 3, 4, 5, 6, 7]}
    if bitorder not in shifts:
        message = f"{name}: bitorder: expected 'big' or 'little', found {bitorder!r}"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    return shifts[bitorder]


@traced
def packbits(a: Any, axis: int | None = None, bitorder: str = "big") -> TracedArray:
    """Returns groups of 8 truth values as uint8; the last group is filled with zeros."""
    array = shaping.ravel(a) if axis is None else operand(a)
    position = shaping.axis_of(axis or 0, array.ndim)
    moved = cast(shaping.moveaxis(array, position, -1) != 0, "int32")
    count = moved.shape[-1]
    missing = -count % 8
    if not isinstance(missing, int) or missing:
        zeros = creation.zeros((*moved.shape[:-1], missing), "int32")
        moved = shaping.concatenate([moved, zeros], -1)
    groups = shaping.reshape(moved, (*moved.shape[:-1], (count + missing) // 8, 8))
    weights = operand([1 << shift for shift in _byte_order("packbits", bitorder)])
    packed = cast(reductions.sum(groups * weights, -1), "uint8")
    return shaping.moveaxis(packed, -1, position)


@traced
def unpackbits(
    a: Any, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> TracedArray:
    """Returns the bits of uint8 along an axis; `count` is their number, or minus those left out."""
    array = shaping.ravel(a) if axis is None else operand(a)
    position = shaping.axis_of(axis or 0, array.ndim)
    moved = cast(shaping.moveaxis(array, position, -1), "int32")
    shifts = operand(_byte_order("unpackbits", bitorder))
    bits = elementwise.bitwise_and(moved[..., None] >> shifts, 1)
    flat = shaping.reshape(bits, (*moved.shape[:-1], moved.shape[-1] * 8))
    if count is not None:
        extra = 0 if count < 0 else max(count - int(flat.shape[-1]), 0)
        flat = shaping.concatenate([flat, creation.zeros((*flat.shape[:-1], extra), "int32")], -1)
        flat = flat[..., :count]
    return shaping.moveaxis(cast(flat, "uint8"), -1, position)

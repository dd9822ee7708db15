"""Converts arguments of a call to run-time values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from structir.errors import ShapeMismatchError
from structir.interpret import dlpack
from structir.interpret.argument_checks import DTYPE_OF_LITERAL, described
from structir.interpret.ragged_values import as_ragged
from structir.interpret.scope import Value
from structir.ir import masked
from structir.ir.dtype import dtype_name, int_limits, is_float, is_int, numpy_dtype
from structir.ir.expr import Var
from structir.ir.plain_arrays import plain_array
from structir.ir.ragged_array import RaggedArray
from structir.ir.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)


def as_value(info: StructInfo | None, value: Value) -> Value:
    """Converts an argument to a run-time value.

    For a tensor parameter, numbers and lists become an array. Tensors of other libraries and
    buffers become arrays that share their memory.
    """
    if type(value) is np.ndarray and value.dtype.isnative and not value.dtype.hasobject:
        return value
    if isinstance(value, np.ma.MaskedArray):
        raise ShapeMismatchError(f"{masked.EXPECTED}\nhelp: {masked.HINT}")
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return plain_array(value)
    if isinstance(info, TensorStructInfo) and info.axes is not None:
        value = as_ragged(info, value)
    if isinstance(info, TensorStructInfo) and not isinstance(value, np.ndarray | RaggedArray):
        if isinstance(value, np.generic):
            return np.asarray(value)
        if isinstance(value, bool | int | float | list):
            return _array_of(value, info)
        return _from_foreign(value)
    if isinstance(info, TupleStructInfo):
        value = in_field_order(info, value)
        if not isinstance(value, list | tuple):
            return value
        return _fields_of(info, value)
    if isinstance(info, ShapeStructInfo) and isinstance(value, list):
        return tuple(value)
    return value


class InvalidField(ShapeMismatchError):
    """A field of a tuple does not convert; `path` leads to it: `[1].w`."""

    def __init__(self, key: str, error: ShapeMismatchError) -> None:
        super().__init__(error.message, code=error.code)
        self.path = key + getattr(error, "path", "")


def _fields_of(info: TupleStructInfo, value: Sequence[Value]) -> tuple[Value, ...]:
    """Converts the fields of a tuple; surplus ones are unchanged and reported later."""
    fields = list(value)
    for k, (field, item) in enumerate(zip(info.fields, value, strict=False)):
        try:
            fields[k] = as_value(field, item)
        except ShapeMismatchError as error:
            key = f".{info.names[k]}" if info.names else f"[{k}]"
            raise InvalidField(key, error) from error.__cause__
    return tuple(fields)


def argument_value(
    param: Var,
    value: Value,
    function: str,
    convert: Callable[[Any, Value], Value] = as_value,
) -> Value:
    """Converts an argument of a function to a run-time value.

    Raises ShapeMismatchError, which names the function and the parameter.
    """
    try:
        return convert(param.struct_info, value)
    except ShapeMismatchError as error:
        raise located(error, f"{function}: parameter {param.name}") from error.__cause__


def located(error: ShapeMismatchError, where: str) -> ShapeMismatchError:
    """Returns the error of a conversion with the location of the value."""
    path = getattr(error, "path", "")
    return ShapeMismatchError(f"{where}{path}: {error.message}", code=error.code)


def _from_foreign(value: Value) -> Value:
    """Returns an array that shares the memory of a DLPack tensor or a buffer; other values
    unchanged."""
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except Exception as error:  # foreign code can raise anything
            array = _of_extended_dtype(value)
            if array is not None:
                return array
            kind = type(value).__name__
            message = f"expected an array that can be read through DLPack, found a {kind}: {error}"
            raise ShapeMismatchError(message) from error
    try:
        return np.asarray(memoryview(value))
    except TypeError:
        return value


def _of_extended_dtype(value: Value) -> Value | None:
    """Returns the array of a DLPack tensor on the CPU whose dtype NumPy lacks; None for others."""
    try:
        on_cpu = value.__dlpack_device__()[0] == dlpack.CPU
        return dlpack.array_of(value) if on_cpu else None
    except Exception:  # foreign code can raise anything; the first error is reported
        return None


def _array_of(value: Value, info: TensorStructInfo) -> Value:
    """Converts numbers to an array; floats, strings and other objects do not become integers."""
    try:
        numbers = np.asarray(value)
        if info.dtype is None:
            return numbers
        array = np.asarray(value, info.dtype)
    except OverflowError:
        raise ShapeMismatchError(_too_large(value, info)) from None
    except (ValueError, TypeError) as error:
        reason = _unequal_lengths(value) or str(error)
        text = f"expected {info}, found {described(value)}: {reason}"
        raise ShapeMismatchError(text) from None
    if not _is_exact(numbers, array):
        kind = dtype_name(numbers.dtype)
        raise ShapeMismatchError(f"expected {info}, found {described(value)} of dtype {kind}")
    return array


def _too_large(value: Value, info: TensorStructInfo) -> str:
    """Returns the message of numbers that the dtype of a parameter cannot represent."""
    dtype = str(info.dtype)
    limits = "from {} to {}".format(*int_limits(dtype)) if is_int(dtype) else "finite"
    return f"expected numbers of dtype {dtype}, {limits}, found {described(value)}"


def _unequal_lengths(value: Value) -> str:
    """Returns the first two lengths that differ in nested lists; an empty text without any."""
    level = value
    while isinstance(level, list) and level:
        lengths = [len(item) if isinstance(item, list) else None for item in level]
        other = next((n for n in lengths if n != lengths[0]), lengths[0])
        if other != lengths[0]:
            first, second = ("no list" if n is None else f"length {n}" for n in (lengths[0], other))
            return (
                f"rows of unequal length, {first} and {second}\n"
                'help: pad the rows, or declare the axis as ragged: `"*"`'
            )
        level = [x for item in level for x in item] if lengths[0] is not None else []
    return ""


def _is_exact(numbers: Value, array: Value) -> bool:
    """Whether numbers of Python keep their values in the dtype of an array, up to rounding."""
    if numbers.dtype == object:  # integers beyond 64 bits
        return is_float(dtype_name(array.dtype)) and None not in numbers.flat
    if not numbers.size or is_float(dtype_name(array.dtype)):
        return not numbers.size or numbers.dtype.kind in "biuf"
    return numbers.dtype.kind in "biu" and bool((numbers == array).all())


def with_bound_dtypes(info: StructInfo, value: Value, bound: Mapping[Any, Any]) -> Value:
    """Returns a value whose Python numbers have the dtypes that dtype variables are bound to."""
    if isinstance(info, PrimStructInfo) and info.dtype_var is not None:
        dtype = bound.get(info.dtype_var)
        if dtype is not None and type(value) in DTYPE_OF_LITERAL:
            return numpy_dtype(getattr(dtype, "dtype", dtype)).type(value)
    if isinstance(info, TupleStructInfo) and isinstance(value, tuple):
        pairs = zip(info.fields, value, strict=False)
        return tuple([with_bound_dtypes(field, item, bound) for field, item in pairs])
    return value


def in_field_order(info: Any, value: Value) -> Value:
    """Returns the values of a dict, or the attributes of an object, as a tuple in the order of
    named fields.

    Returns other values unchanged, and a dict whose keys are not the names of the fields. A tuple
    without fields may be an empty dict or None.
    """
    if isinstance(value, tuple | list) or not isinstance(info, TupleStructInfo):
        return value
    names = info.names or ()
    if len(names) != len(info.fields):
        return value
    if isinstance(value, Mapping):
        return tuple([value[name] for name in names]) if value.keys() == {*names} else value
    if not names:
        return () if value is None else value
    if hasattr(type(value), "__array_interface__") or not all([hasattr(value, n) for n in names]):
        return value  # the parts of an array, such as `real`, are no fields
    return tuple([getattr(value, name) for name in names])

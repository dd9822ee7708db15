"""Arrays as kernels expect them: of no subclass, in the byte order of this machine."""

from __future__ import annotations

from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.masked import unmasked
from structir.lazy import lazy_module

np = lazy_module("numpy")


def plain_array(array: Any) -> Any:
    """Returns an array of NumPy of no subclass, in the byte order of this machine."""
    if array.dtype.isnative:
        return array if type(array) is np.ndarray else np.asarray(array)
    return np.asarray(array, array.dtype.newbyteorder("="))


def plain_values(value: Any) -> Any:
    """Returns a result of a Python function with its arrays as `plain_array` returns them."""
    if isinstance(value, tuple):
        return tuple(map(plain_values, value))
    return plain_array(value) if isinstance(value, np.ndarray) else value


def constant_array(data: Any) -> Any:
    """Returns the array if no array over its memory is writeable, else a read-only copy.

    The result has no subclass of arrays, and the byte order of this machine, as kernels expect.
    """
    if type(data) is not np.ndarray and not isinstance(unmasked(data), np.ndarray | np.generic):
        message = f"expected a NumPy array, found {data!r}"
        hint = '`R.const([1, 2], "float32")`, or `numpy.asarray(value)`'
        raise DiagnosticError(Diagnostic(message, hint=hint, code="E0107"))
    data = plain_array(data)
    holder: Any = data
    while hasattr(holder, "flags"):
        if holder.flags.writeable:
            data = data.copy("K")
            data.flags.writeable = False
            break
        holder = holder.base
    return data

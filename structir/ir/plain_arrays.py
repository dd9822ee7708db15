"""Arrays as kernels expect them: of no subclass, in the byte order of this machine."""

from __future__ import annotations

from typing import Any

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

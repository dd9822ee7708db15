"""Prints constants: small ones inline, large ones as references to arrays stored separately."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

from structir.errors import Diagnostic, DiagnosticError, caller_span
from structir.ir.dtype import DTYPES, SMALL_INTS, dtype_hint, is_int, numpy_dtype
from structir.ir.expr import Constant
from structir.ir.masked import unmasked
from structir.lazy import lazy_module
from structir.printer.files.mapped_memory import chunks
from structir.printer.syntax import CONST, METADATA

if TYPE_CHECKING:
    import numpy

np = lazy_module("numpy")

INLINE_ELEMENTS = 16

# Live arrays of this process that printed source refers to, by reference name.
_printed: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
_names: dict[int, tuple[Any, str]] = {}


def constant_text(data: numpy.ndarray) -> str:
    """Prints a constant, inline or as a reference."""
    if is_inline(data):
        return values_text(data)
    return f'{METADATA}["{_naming.get()(data)}"]'


def values_text(data: numpy.ndarray) -> str:
    """Prints a constant with all its values."""
    return f'R.{CONST}({_nested(data.tolist(), data.dtype)}, "{data.dtype.name}")'


def _name_to_read(data: numpy.ndarray) -> str:
    name = reference_name(data)
    _printed[name] = data
    return name


_naming: ContextVar[Callable[[Any], str]] = ContextVar("naming", default=_name_to_read)


@contextmanager
def constants_named(name_of: Callable[[Any], str]) -> Iterator[None]:
    """Names large constants by `name_of` inside; for source that is not parsed again."""
    token = _naming.set(name_of)
    try:
        yield
    finally:
        _naming.reset(token)


def is_inline(data: numpy.ndarray) -> bool:
    """Whether a constant is printed inline: it is small, and its literals are exact."""
    if data.size > INLINE_ELEMENTS:
        return False
    restored = np.asarray(_as_read(data.tolist()), data.dtype)
    return bool(restored.shape == data.shape and restored.tobytes() == data.tobytes())


def _as_read(value: Any) -> Any:
    """Returns a value as the parser restores it: NaN loses its sign and payload."""
    if isinstance(value, list):
        return [_as_read(item) for item in value]
    return nan if value != value else value


def _nested(value: Any, dtype: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join([_nested(item, dtype) for item in value])}]"
    return _float_text(value, dtype) if isinstance(value, float) else repr(value)


def _float_text(value: float, dtype: Any) -> str:
    if not isfinite(value):
        return f'float("{value}")'
    if dtype.name == "float32":
        short = str(np.float32(value))
        if np.float32(float(short)) == np.float32(value):
            return repr(float(short))
    return repr(value)


def reference_name(data: numpy.ndarray) -> str:
    """Returns the reference name of an array: dtype, shape and a hash of its contents."""
    memoized = _names.get(id(data))
    if memoized is not None and memoized[0]() is data:
        return memoized[1]
    content_hash = hashlib.blake2b(digest_size=8)
    for chunk in chunks(data):
        content_hash.update(chunk)
    shape = "x".join(map(str, data.shape)) or "scalar"
    name = f"{data.dtype.name}_{shape}_{content_hash.hexdigest()}"
    key = id(data)
    _names[key] = (weakref.ref(data, lambda _: _names.pop(key, None)), name)
    return name


def referred_constant(
    name: str, arrays: Mapping[str, Any], others: Iterable[Any] = ()
) -> Constant | None:
    """Returns the constant of a reference, from `arrays` or from printed live arrays, or None.

    An array of `others` is found by the contents that the name of the reference describes.
    """
    data = arrays.get(name)
    if data is None:
        data = _printed.get(name)
    if data is None:
        data = next((a for a in others if _is_described(a, name)), None)
    return None if data is None else Constant(data)


def _is_described(data: Any, name: str) -> bool:
    """Whether a reference name is that of an array; the hash is computed for equal shapes only."""
    shape = "x".join(map(str, data.shape)) or "scalar"
    return name.startswith(f"{data.dtype.name}_{shape}_") and reference_name(data) == name


def inline_constant(value: Any, dtype: str | None) -> Constant:
    """Returns the constant of `R.const(value, dtype)`.

    The default is the dtype of an array, and float32, int64 or bool for Python numbers. Raises
    TypeError, ValueError or OverflowError for numbers that the dtype does not have; only an array
    is converted.
    """
    value = unmasked(value)
    _check_numbers(value, dtype)
    if dtype is None:
        data = np.asarray(value)
        if isinstance(value, np.generic) or not hasattr(value, "dtype"):  # numbers and lists
            data = data.astype({"f": "float32", "i": "int64"}.get(data.dtype.kind, data.dtype))
    else:
        data = np.asarray(value, numpy_dtype(dtype))
        if dtype in SMALL_INTS and (data.astype("int64") != np.asarray(value)).any():
            raise OverflowError(f"{value} is out of bounds for {dtype}")
    return Constant(data)


def _check_numbers(value: Any, dtype: str | None) -> None:
    """Raises TypeError for a value that is no number, ValueError for a fraction as an integer."""
    if type(value) is int or type(value) is bool or isinstance(value, np.ndarray):
        return
    if type(value) is float and (dtype is None or not is_int(dtype)):
        return
    numbers = np.asarray(value)
    if numbers.dtype.kind in "SUO" and not all(type(item) is int for item in numbers.flat):
        raise TypeError(f"expected numbers, found {value!r}")
    if dtype is None or numbers.dtype.kind != "f" or not is_int(dtype):
        return
    fractions = numbers[numbers != np.trunc(numbers)]
    if fractions.size:
        raise ValueError(f"expected integers, found {fractions.flat[0]}")


def python_constant(value: Any, dtype: Any) -> Constant:
    """Returns the constant of a call of `R.const` in Python; raises DiagnosticError."""
    dtype = dtype if dtype is None or isinstance(dtype, str) else str(np.dtype(dtype).name)
    if dtype is not None and dtype not in DTYPES:
        hint = dtype_hint(dtype)
        message = f"R.const: expected a dtype, such as float32, found {dtype!r}"
        raise DiagnosticError(Diagnostic(message, caller_span(), hint=hint, code="E0122"))
    try:
        return inline_constant(value, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        of_dtype = f" of dtype {dtype}" if dtype else ""
        message = f"R.const: expected numbers{of_dtype}, found {value!r}"
        hint = 'write a number, a bool or a list of them: `R.const([1, 2], "float32")`'
        diagnostic = Diagnostic(message, caller_span(), hint=hint, code="E0107")
        raise DiagnosticError(diagnostic.note(str(error))) from None

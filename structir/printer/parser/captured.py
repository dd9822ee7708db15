"""Values of Python that a program names: constants of its text.

Only values are taken, never the results of calls: names, items of tuples, lists and dicts, and
fields that are stored in an object. No code of the objects runs.
"""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Mapping
from typing import Any

from structir.ir.dtype import DTYPES
from structir.ir.expr import Constant
from structir.ir.op import Op
from structir.ir.struct_info import StructInfo
from structir.printer.parser.context import MISSING

NODES = (StructInfo, Constant, Op)
SYMBOLS = "sympy.core.symbol"
PLAIN = (bool, int, float, str, type(None))
MAX_ITEMS = 1 << 16  # of a captured tuple or list


def captured(value: Any) -> Any:
    """Returns a value of Python as a value of a program; MISSING if it has no counterpart.

    Numbers, strings and dtypes are themselves, tuples and lists are tuples, arrays are constants.
    StructInfos, constants and ops are themselves.
    """
    if type(value) in PLAIN or issubclass(type(value), NODES):
        return value
    if (type(value).__module__, type(value).__name__) == ("numpy", "ndarray"):  # no subclass
        return Constant(value) if value.dtype.name in DTYPES else MISSING
    if type(value).__module__ == "numpy" and _inherits(type(value), "numpy", "generic"):
        return value.item() if type(value.item()) in PLAIN else MISSING
    if type(value) is list or issubclass(type(value), tuple):
        items = [captured(item) for item in _items(value)]
        return MISSING if any(item is MISSING for item in items) else tuple(items)
    return _dtype(value)


def _items(value: Any) -> Any:
    """Returns the items of a list or tuple, also of a named one; one that is too long has none."""
    stored = value if type(value) is list else tuple.__getitem__(value, slice(None))
    return stored if len(stored) <= MAX_ITEMS else [object()]


def dim_name(value: Any) -> str | None:
    """Returns the name of a symbolic dim of Python; None for any other value."""
    return str(value.name) if _inherits(type(value), SYMBOLS, "Symbol") else None


def _inherits(cls: type, module: str, name: str) -> bool:
    """Whether a class is one of these names or inherits from it; `isinstance` may run code."""
    return any(c.__name__ == name and c.__module__ == module for c in type.mro(cls))


def _dtype(value: Any) -> Any:
    """Returns the name of a dtype, such as `np.float32` or `np.dtype("int8")`."""
    if _inherits(type(value), "numpy", "dtype"):
        return value.name if value.name in DTYPES else MISSING
    is_scalar = type(value) is type and value.__module__ == "numpy"
    name = value.__name__.rstrip("_") if is_scalar and _inherits(value, "numpy", "generic") else ""
    return name if name in DTYPES else MISSING


def python_object(values: Mapping[str, Any], node: ast.expr) -> Any:
    """Returns what `name`, `name.field` or `name["key"]` denotes in Python; MISSING if unknown."""
    match node:
        case ast.Name(id=name):
            return values.get(name, MISSING)
        case ast.Attribute(value=base, attr=field):
            return _stored_field(python_object(values, base), field)
        case ast.Subscript(value=base, slice=ast.Constant(value=key)):
            return _item(python_object(values, base), key)
        case ast.Subscript(value=base, slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(k))):
            return _item(python_object(values, base), -k if type(k) is int else None)
    return MISSING


def _item(base: Any, key: Any) -> Any:
    if (type(base) is list or issubclass(type(base), tuple)) and type(key) is int:
        stored = _items(base)
        return stored[key] if -len(stored) <= key < len(stored) else MISSING
    if type(base) is dict and type(key) in (str, int):
        return base.get(key, MISSING)
    return MISSING


def _stored_field(base: Any, field: str) -> Any:
    """Returns a field that is stored in an object or its class, without running any code."""
    if base is MISSING:
        return MISSING
    value = inspect.getattr_static(base, field, MISSING)
    if type(value) is types.MemberDescriptorType:  # a slot
        return value.__get__(base)
    fields = inspect.getattr_static(type(base), "_fields", ())
    if issubclass(type(base), tuple) and type(fields) is tuple and field in fields:
        return _items(base)[fields.index(field)]
    return MISSING if hasattr(type(value), "__get__") else value

"""Values of Python that a program names: constants of its text.

Only values are taken, never the results of calls: names, items of tuples, lists and dicts, and
fields that are stored in an object. No code of the objects runs.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

from structir.ir.dims import Poly
from structir.ir.dtype import DTYPES
from structir.ir.expr import Constant, Function
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.ir.op import Op
from structir.ir.struct_info import StructInfo
from structir.lazy import lazy_module
from structir.printer.parser.context import MISSING

np = lazy_module("numpy")

NODES = (StructInfo, Constant, Op)
SYMBOLS = "sympy.core.symbol"
PLAIN = (bool, int, float, str, type(None))
MAX_ITEMS = 1 << 16  # of a captured tuple or list
SHARED_BYTES = 1 << 16  # an array of at least this size is a constant without a copy
KEYS = frozenset({str, int, bool, float, type(None)})
ARRAY_FIELDS = frozenset({"shape", "ndim", "size", "dtype", "T"})


class ModuleFunction:
    """A function or kernel of a captured module."""

    __slots__ = ("module", "name")

    def __init__(self, module: IRModule, name: str) -> None:
        self.module, self.name = module, name


FUNCTIONS = (Function, Kernel, ModuleFunction)


def captured(value: Any, dim_of: Callable[[str], Any], constant: Callable[[Any], Any]) -> Any:
    """Returns a value of Python as a value of a program; MISSING if it has no counterpart.

    Numbers, strings and dtypes are themselves, tuples and lists are tuples, arrays are constants.
    StructInfos, constants and ops are themselves. `dim_of` returns the dim of a name, `constant`
    the constant of an array.
    """
    kind = type(value)
    if kind in PLAIN or kind is Poly or issubclass(kind, NODES):
        return value
    if is_array(value):
        return constant(value) if value.dtype.name in DTYPES else MISSING
    if is_scalar(kind):
        return value.item() if type(value.item()) in PLAIN else MISSING
    if kind is list or issubclass(kind, tuple):
        items = [captured(item, dim_of, constant) for item in items_of(value)]
        return MISSING if any(item is MISSING for item in items) else tuple(items)
    name = dim_name(value)
    return dtype_name(value) if name is None else dim_of(name)


def is_array(value: Any) -> bool:
    """Whether a value is a NumPy array, of no subclass."""
    return names_of(type(value)) == ("numpy", "ndarray")


def is_scalar(kind: type) -> bool:
    """Whether a class is one of NumPy's scalars."""
    return names_of(kind)[0] == "numpy" and _inherits(kind, "numpy", "generic")


def shared(array: Any) -> Any:
    """Returns a read-only array over the memory of a large one; any other is returned unchanged."""
    if array.nbytes < SHARED_BYTES or not array.flags.writeable:
        return array
    try:
        return np.asarray(memoryview(array).toreadonly())
    except (ValueError, TypeError, BufferError):  # a dtype that buffers do not have
        return array


def items_of(value: Any) -> Any:
    """Returns the items of a list or tuple, also of a named one; one that is too long has none."""
    kind = list if issubclass(type(value), list) else tuple
    stored = kind.__getitem__(value, slice(None))
    return stored if len(stored) <= MAX_ITEMS else [object()]


def is_sequence(value: Any) -> bool:
    """Whether a value is a tuple or a list."""
    return issubclass(type(value), tuple | list)


def is_dict(value: Any) -> bool:
    """Whether a value is a dict with plain keys, whose comparison runs no code of a class."""
    return issubclass(type(value), dict) and set(map(type, dict.keys(value))) <= KEYS


def arrays_in(values: Any) -> Iterator[Any]:
    """Yields the arrays in a tree of dicts, lists and tuples, each once."""
    remaining, seen = [values], set[int]()
    while remaining:
        value = remaining.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if is_array(value):
            yield value
        elif is_sequence(value):
            remaining += items_of(value)
        elif issubclass(type(value), dict):
            remaining += dict.values(value)


def dict_views(value: Any, view: str) -> Any:
    """Returns the items, keys or values of a dict."""
    return {"items": dict.items, "keys": dict.keys, "values": dict.values}[view](value)


def dim_name(value: Any) -> str | None:
    """Returns the name of a symbolic dim of Python; None for any other value."""
    return str(value.name) if _inherits(type(value), SYMBOLS, "Symbol") else None


def _inherits(cls: type, module: str, name: str) -> bool:
    """Whether a class is one of these names or inherits from it; `isinstance` may run code."""
    return (module, name) in map(names_of, type.mro(cls))


def names_of(cls: type) -> tuple[str, str]:
    """Returns the module and the name of a class, without code of its metaclass."""
    return _MODULE(cls), _NAME(cls)


_MODULE = type.__dict__["__module__"].__get__
_NAME = type.__dict__["__name__"].__get__


def dtype_name(value: Any) -> Any:
    """Returns the name of a dtype, such as `np.float32` or `np.dtype("int8")`, or MISSING."""
    if _inherits(type(value), "numpy", "dtype"):
        return value.name if value.name in DTYPES else MISSING
    is_class = type(value) is type and is_scalar(value)
    name = names_of(value)[1].rstrip("_") if is_class else ""
    return name if name in DTYPES else MISSING


def item_of(base: Any, key: Any) -> Any:
    """Returns an item that is stored in a tuple, list, dict, array or module, or MISSING."""
    if is_sequence(base) or is_array(base):
        return _item_at(base, key)
    if type(key) in KEYS and is_dict(base):
        return dict.get(base, key, MISSING)
    if type(base) is IRModule and type(key) is str and key in base.functions:
        return ModuleFunction(base, key)
    return MISSING


def _item_at(base: Any, key: Any) -> Any:
    stored = base if is_array(base) else items_of(base)
    if type(key) is tuple:
        return _part(base, key)
    if type(key) not in (int, slice) or (is_array(base) and base.ndim == 0):
        return MISSING
    if type(key) is int and not -len(stored) <= key < len(stored):
        return MISSING
    return stored[key]


def _part(array: Any, keys: tuple[Any, ...]) -> Any:
    """Returns a part of an array by an index or a slice per axis, or MISSING."""
    if not all([type(key) in (int, slice) for key in keys]):
        return MISSING
    try:
        return array[keys]
    except IndexError:
        return MISSING


def stored_field(base: Any, field: str) -> Any:
    """Returns a field that is stored in an object or its class, without running any code."""
    if is_array(base):
        return getattr(base, field) if field in ARRAY_FIELDS else MISSING
    if not _has_plain_classes(base):
        return MISSING
    value = inspect.getattr_static(base, field, MISSING)
    if type(value) is types.MemberDescriptorType:  # a slot
        try:
            return value.__get__(base)
        except AttributeError:  # not assigned yet
            return MISSING
    fields = inspect.getattr_static(type(base), "_fields", ())
    if issubclass(type(base), tuple) and type(fields) is tuple and field in fields:
        return items_of(base)[fields.index(field)]
    is_descriptor = inspect.getattr_static(type(value), "__get__", MISSING) is not MISSING
    return MISSING if is_descriptor else value


def _has_plain_classes(value: Any) -> bool:
    """Whether no metaclass of a value has code that runs when a class is inspected."""
    kinds = [type(type(value)), *([type(value)] if issubclass(type(value), type) else [])]
    own = type.__getattribute__
    return all([own(kind, "__getattribute__") is own for kind in kinds])


def stored_names(base: Any) -> list[Any]:
    """Returns the keys of a dict or the names of stored fields, for messages."""
    if is_dict(base):
        return list(dict.keys(base))
    if type(base) is IRModule:
        return list(base.functions)
    kind = type(base)
    if not _has_plain_classes(base):
        return []
    for name in ("__dataclass_fields__", "_fields", "__slots__"):
        fields = inspect.getattr_static(kind, name, None)
        if type(fields) in (dict, tuple):
            return [field for field in fields if type(field) is str]
    return []

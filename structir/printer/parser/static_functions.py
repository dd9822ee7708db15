"""Functions of Python's `math` and of NumPy that the parser evaluates on captured values.

They are pure, take numbers, names of dtypes and lists of numbers, and give numbers or small arrays.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from math import prod
from types import ModuleType
from typing import Any

from structir.lazy import lazy_module
from structir.printer.parser.captured import MAX_ITEMS

np = lazy_module("numpy")

OF_MATH = frozenset(
    {"sqrt", "exp", "log", "log2", "log10", "pow", "floor", "ceil", "prod", "gcd", "lcm", "tanh"}
)
CREATIONS = frozenset({"zeros", "ones", "full", "eye", "arange", "linspace", "array", "asarray"})
SCALARS = frozenset({"sqrt", "exp", "log", "log2", "log10", "floor", "ceil", "prod", "tanh"})
METHODS = frozenset({"astype", "reshape", "transpose", "copy"})
OF_STRINGS = frozenset(
    {
        *("upper", "lower", "strip", "replace", "startswith", "endswith"),
        *("removeprefix", "removesuffix"),
    }
)
MAX_NUMBER = 1 << 62


def imported_modules(nodes: list[ast.stmt]) -> Mapping[str, ModuleType]:
    """Returns the modules with such functions that a text imports, by name: `math` and NumPy."""
    aliases = [alias for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    known = [alias for alias in aliases if alias.name in ("math", "numpy")]
    return {alias.asname or alias.name: import_module(alias.name) for alias in known}


DTYPE_CLASSES = frozenset({"float16", "float32", "float64"}) | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


def function_of(module: Any, name: str) -> Callable[..., Any] | None:
    """Returns a function that the parser may evaluate; None for any other."""
    if module is math and name in OF_MATH:
        return _of_numbers(getattr(math, name))
    if not _is_numpy(module):
        return None
    if name in CREATIONS:
        return _creation(name)
    if name in DTYPE_CLASSES:
        return _of_numbers(getattr(np, name))
    return _of_numbers(getattr(np, name)) if name in SCALARS else None


def method_of(value: Any, name: str) -> Callable[..., Any] | None:
    """Returns a pure method of an array or a string that is no larger; None for any other."""
    if type(value) is str:
        return partial(_of_string, value, name) if name in OF_STRINGS else None
    return getattr(value, name) if name in METHODS else None


def _of_string(value: str, name: str, *values: Any) -> Any:
    """Returns the result of a method of a string; raises ValueError for a long one."""
    if prod([len(text) + 1 for text in (value, *values) if type(text) is str]) > MAX_ITEMS:
        raise ValueError(f"expected a result of at most {MAX_ITEMS} characters")
    return getattr(value, name)(*values)


def _is_numpy(module: Any) -> bool:
    return isinstance(module, ModuleType) and module.__dict__.get("__name__") == "numpy"


def _of_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that takes moderate numbers, or one list of them."""

    def apply(*values: Any) -> Any:
        numbers = values[0] if len(values) == 1 and type(values[0]) is tuple else values
        if not all([type(n) in (int, float, bool) and abs(n) < MAX_NUMBER for n in numbers]):
            raise TypeError("expected numbers")
        return function(*values)

    return apply


def _creation(name: str) -> Callable[..., Any]:
    """Returns a function of NumPy that creates an array, of at most MAX_ITEMS elements."""

    def create(*values: Any, **options: Any) -> Any:
        count = _count(name, *values, **options)
        if not 0 <= count <= MAX_ITEMS:
            raise ValueError(f"expected at most {MAX_ITEMS} elements, found {count}")
        return getattr(np, name)(*values, **options)

    return create


def _count(name: str, *values: Any, **options: Any) -> float:
    """Returns the number of elements that a call creates; lists are as long as their text."""
    if name in ("array", "asarray"):
        return 0
    if name == "arange":
        first, stop = (0, *values) if len(values) == 1 else values[:2]
        return float(abs(stop - first) / abs(values[2] if len(values) > 2 else 1))
    if name == "linspace":
        return int(options.get("num", values[2] if len(values) > 2 else 50))
    if name == "eye":
        return int(values[0]) * int(values[1] if len(values) > 1 else values[0])
    shape = options.get("shape", values[0] if values else ())
    sizes = shape if type(shape) is tuple else (shape,)
    return math.prod(sizes)

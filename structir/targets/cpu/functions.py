"""Python functions over arrays that kernels call: their sources, and copies with other globals."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from textwrap import dedent
from types import CellType, CodeType, FunctionType
from typing import Any

import numpy as np

from structir.errors import Diagnostic, DiagnosticError, code_span
from structir.ir.code_hash import code_hash, is_of_package
from structir.lazy import lazy_module

LAZY = type(lazy_module("numpy"))


def version_of(function: Callable[..., Any]) -> str:
    """Returns a hash of the values that a function of another package reads, such as globals."""
    return "" if is_of_package(function) else code_hash(function)


def plain_function(function: Callable[..., Any]) -> Any:
    """Returns the function for the Python interpreter, with lazy imports of NumPy resolved."""
    return rebind_globals(function, plain_function)


def rebind_globals(
    function: Callable[..., Any], called: Callable[[Callable[..., Any]], Any]
) -> FunctionType:
    """Returns a copy of a function whose global and captured functions are mapped by `called`.

    Lazy imports of NumPy are resolved.
    """
    assert isinstance(function, FunctionType)

    def bound(value: Any) -> Any:
        if isinstance(value, FunctionType):
            return called(value)
        return np if isinstance(value, LAZY) else value

    known = function.__globals__
    names = {name: bound(known[name]) for name in _names(function.__code__) & known.keys()}
    cells = tuple([CellType(bound(cell.cell_contents)) for cell in function.__closure__ or ()])
    code, defaults = function.__code__, function.__defaults__
    return FunctionType(code, names, function.__name__, defaults, cells)


def kernel_error(
    function: Callable[..., Any], message: str, hint: str | None = None
) -> DiagnosticError:
    """Returns the error of a kernel of another package, located at its definition."""
    span = code_span(function.__code__)
    return DiagnosticError(Diagnostic(message, span, hint=hint, code="E1136"))


def routine_source(function: Callable[..., Any]) -> str:
    """Returns the source of a function and of its callees, which identifies it.

    The source of a function of another package does not determine the values that it reads, such as
    global constants: a hash of these is added.
    """
    version = version_of(function)
    lines = [f"# {version}"] if version else []
    return "\n".join([*lines, *map(_source, transitive_callees(function))])


def _source(function: Any) -> str:
    is_global = is_of_package(function) and "<locals>" not in function.__qualname__
    return _source_of_package(function) if is_global else _read_source(function)


def _read_source(function: Any) -> str:
    try:
        return dedent(inspect.getsource(function))
    except (OSError, TypeError):  # of a function that was not read from a file
        return f"# source of {function.__qualname__} is not available"


# `inspect` looks for the end of a function by tokens: half a millisecond
_source_of_package = cache(_read_source)


def transitive_callees(function: Any) -> list[Any]:
    """Returns a function and its transitive callees by global and captured names."""
    functions = [function]
    for caller in functions:
        known = caller.__globals__
        values = [known.get(name) for name in sorted(_names(caller.__code__))]
        values += [cell.cell_contents for cell in caller.__closure__ or ()]
        functions += [v for v in values if isinstance(v, FunctionType) and v not in functions]
    return functions


def _names(code: CodeType) -> set[str]:
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    return set(code.co_names).union(*map(_names, inner))

"""Compiles plain Python functions over arrays, together with the functions that they call."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from textwrap import dedent
from types import CellType, CodeType, FunctionType
from typing import Any

import numpy as np
from numba import njit
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys  # type: ignore[attr-defined]

from structir.errors import Diagnostic, DiagnosticError, StructIRError, code_span
from structir.ir.code_hash import code_hash, is_of_package
from structir.lazy import lazy_module
from structir.system.locks import new_rlock
from structir.targets.cpu.pipeline import RoutineCompiler

LAZY = type(lazy_module("numpy"))
OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": RoutineCompiler,
}
HINT = "use loops over arrays and numbers, and functions of NumPy and math that numba supports"
COLOUR = re.compile("\x1b\\[[0-9;]*m")
DETAILS = ("There are", "During", "File", "- Of which")  # lines of an error of numba
_lock = new_rlock()


def compiled_function(function: Callable[..., Any]) -> Any:
    """Returns a function that kernels can call, compiled once per combination of dtypes and ranks.

    Functions that it calls by global names are compiled too. Lazy imports of NumPy are resolved.
    """
    with _lock:
        return _compiled(function)


def _compiled(function: Callable[..., Any]) -> Any:
    return _compiled_version(function, _version(function))


@cache
def _compiled_version(function: Callable[..., Any], _version: str) -> Any:
    return njit(**OPTIONS)(rebind_globals(function, _compiled))


def _version(function: Callable[..., Any]) -> str:
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


@contextmanager
def reported(function: Callable[..., Any]) -> Iterator[None]:
    """Raises DiagnosticError where numba cannot compile a kernel of another package."""
    try:
        yield
    except Exception as error:  # numba raises several kinds
        if is_of_package(function) or isinstance(error, StructIRError):
            raise
        name = function.__qualname__
        message = f"{name}: numba cannot compile the kernel: {_summary(error)}"
        raise kernel_error(function, message, HINT) from error


def _summary(error: Exception) -> str:
    """Returns the reason in an error of numba, without colours and without where it occurred."""
    if isinstance(error, RecursionError):
        return "it calls itself"
    lines = [COLOUR.sub("", line).strip() for line in str(error).splitlines()]
    lines = [line for line in lines if line and not line.startswith("Failed in")]
    length = next((k for k, line in enumerate(lines) if line.startswith(DETAILS)), len(lines))
    return " ".join(lines[:length]).partition(" Raised from")[0]


def routine_source(function: Callable[..., Any]) -> str:
    """Returns the source of a function and of its callees, which identifies it.

    The source of a function of another package does not determine the values that it reads, such as
    global constants: a hash of these is added.
    """
    version = _version(function)
    lines = [f"# {version}"] if version else []
    return "\n".join([*lines, *map(_source, transitive_callees(function))])


def _source(function: Any) -> str:
    try:
        return dedent(inspect.getsource(function))
    except (OSError, TypeError):  # of a function that was not read from a file
        return f"# source of {function.__qualname__} is not available"


def transitive_callees(function: Any) -> list[Any]:
    """Returns a function and its transitive callees by global and captured names."""
    functions = [function]
    for caller in functions:
        known = caller.__globals__
        values = [known.get(name) for name in sorted(_names(caller.__code__))]
        values += [cell.cell_contents for cell in caller.__closure__ or ()]
        functions += [v for v in values if isinstance(v, FunctionType) and v not in functions]
    return functions


@cache
def ready_for_arrays() -> None:
    """Registers the symbols of numba's runtime, through which compiled code allocates arrays."""
    rtsys.initialize(cpu_target.target_context)


def _names(code: CodeType) -> set[str]:
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    return set(code.co_names).union(*map(_names, inner))

"""Compiles plain Python functions over arrays, together with the functions that they call."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from textwrap import dedent
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from numba import njit
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys  # type: ignore[attr-defined]

from structir.backend.cpu.pipeline import RoutineCompiler
from structir.backend.locks import new_rlock
from structir.lazy import lazy_module

LAZY = type(lazy_module("numpy"))
OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": RoutineCompiler,
}
_lock = new_rlock()


def compiled_function(function: Callable[..., Any]) -> Any:
    """Returns a function that kernels can call, compiled once per combination of dtypes and ranks.

    Functions that it calls by global names are compiled too. Lazy imports of NumPy are resolved.
    """
    with _lock:
        return _compiled(function)


@cache
def _compiled(function: Callable[..., Any]) -> Any:
    return njit(**OPTIONS)(rebind_globals(function, _compiled))


def plain_function(function: Callable[..., Any]) -> Any:
    """Returns the function for the Python interpreter, with lazy imports of NumPy resolved."""
    return rebind_globals(function, plain_function)


def rebind_globals(
    function: Callable[..., Any], called: Callable[[Callable[..., Any]], Any]
) -> FunctionType:
    """Returns a copy of a function whose global functions are mapped by `called`.

    Lazy imports of NumPy are resolved.
    """
    assert isinstance(function, FunctionType)
    known, names = function.__globals__, dict[str, Any]()
    for name in _names(function.__code__) & known.keys():
        value = known[name]
        if isinstance(value, FunctionType):
            value = called(value)
        names[name] = np if isinstance(value, LAZY) else value
    return FunctionType(function.__code__, names, function.__name__, function.__defaults__)


def routine_source(function: Callable[..., Any]) -> str:
    """Returns the source of a function and of its callees, which identifies it."""
    return "\n".join([dedent(inspect.getsource(f)) for f in transitive_callees(function)])


def transitive_callees(function: Any) -> list[Any]:
    """Returns a function and its transitive callees by global names."""
    functions = [function]
    for caller in functions:
        known = caller.__globals__
        values = [known.get(name) for name in sorted(_names(caller.__code__))]
        functions += [v for v in values if isinstance(v, FunctionType) and v not in functions]
    return functions


@cache
def ready_for_arrays() -> None:
    """Registers the symbols of numba's runtime, through which compiled code allocates arrays."""
    rtsys.initialize(cpu_target.target_context)


def _names(code: CodeType) -> set[str]:
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    return set(code.co_names).union(*map(_names, inner))

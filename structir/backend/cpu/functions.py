"""Functions of plain Python over arrays, compiled together with the functions that they call."""

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

from structir.backend.locks import new_rlock
from structir.lazy import lazy_module

LAZY = type(lazy_module("numpy"))
OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
_lock = new_rlock()


def compiled_function(function: Callable[..., Any]) -> Any:
    """A function as kernels can call it: compiled once for each combination of dtypes and ranks.

    What it calls by a global name is compiled as well; `np` is NumPy, however it was imported.
    """
    with _lock:
        return _compiled(function)


@cache
def _compiled(function: Callable[..., Any]) -> Any:
    return njit(**OPTIONS)(rebuilt_function(function, _compiled))


def plain_function(function: Callable[..., Any]) -> Any:
    """The function as Python runs it, without any module that loads later."""
    return rebuilt_function(function, plain_function)


def rebuilt_function(
    function: Callable[..., Any], called: Callable[[Callable[..., Any]], Any]
) -> FunctionType:
    """A function over what stands for the functions that it calls; `np` is NumPy."""
    assert isinstance(function, FunctionType)
    known, names = function.__globals__, dict[str, Any]()
    for name in _names(function.__code__) & known.keys():
        value = known[name]
        if isinstance(value, FunctionType):
            value = called(value)
        names[name] = np if isinstance(value, LAZY) else value
    return FunctionType(function.__code__, names, function.__name__, function.__defaults__)


def routine_source(function: Callable[..., Any]) -> str:
    """The source of a function and of those that it calls, which tells it from every other one."""
    return "\n".join([dedent(inspect.getsource(f)) for f in called_functions(function)])


def called_functions(function: Any) -> list[Any]:
    """A function, and those that it calls by global names."""
    found = [function]
    for caller in found:
        known = caller.__globals__
        values = [known.get(name) for name in sorted(_names(caller.__code__))]
        found += [v for v in values if isinstance(v, FunctionType) and v not in found]
    return found


@cache
def ready_for_arrays() -> None:
    """Let loaded code make arrays: the names of what it calls for memory are known from here on."""
    rtsys.initialize(cpu_target.target_context)


def _names(code: CodeType) -> set[str]:
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    return set(code.co_names).union(*map(_names, inner))

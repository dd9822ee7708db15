"""Locates the source text of decorated functions and classes, and parses it."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from structir.analysis.variables import symbols_in
from structir.errors import Diagnostic, ParseError, Source
from structir.ir.expr import Function
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.ir.struct_info import StructInfo
from structir.printer.parser.parser import parse_source


def source_at(filename: str, line: int, namespace: dict[str, Any]) -> Source:
    """Returns the block of a file that begins at a line; raises ParseError without a source."""
    lines = linecache.getlines(filename, namespace)
    if line > len(lines):
        hint = "write the program in a file or a notebook cell, or use `structir.parse(text)`"
        raise ParseError(Diagnostic(f"no source available for {filename}", hint=hint))
    return Source(filename, "".join(inspect.getblock(lines[line - 1 :])), line)


def module_at(
    filename: str, line: int, namespace: dict[str, Any], members: Iterable[Any] = ()
) -> IRModule:
    """Parses the class whose decorators begin at a line to a module."""
    evaluated_names = frozenset([name for member in members for name in _evaluated_names(member)])
    source = source_at(filename, line, namespace)
    return parse_source(source, evaluated_names=evaluated_names, python_values=namespace)


def _evaluated_names(function: Any) -> Iterator[str]:
    """Yields the names of dims in annotations that Python has evaluated."""
    for info in getattr(function, "__annotations__", {}).values():
        if isinstance(info, StructInfo):
            yield from (symbol.name for symbol in symbols_in(info))


def function_of(function: Callable[..., Any]) -> Function:
    """Parses a decorated Python function to a function of the IR."""
    return _parse(function)[function.__name__]


def kernel_of(function: Callable[..., Any]) -> Kernel:
    """Parses a decorated Python function to a kernel."""
    kernel = _parse(function).functions[function.__name__]
    assert isinstance(kernel, Kernel)
    return kernel


def _parse(function: Callable[..., Any]) -> IRModule:
    code = function.__code__
    source = source_at(code.co_filename, code.co_firstlineno, function.__globals__)
    names = frozenset(_evaluated_names(function))
    return parse_source(source, evaluated_names=names, python_values=_python_values(function))


def _python_values(function: Callable[..., Any]) -> dict[str, Any]:
    """Returns the globals of a function, and its captured variables that have a value already."""
    values = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            values[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            values.pop(name, None)
    return values


def is_member(function: Callable[..., Any]) -> bool:
    """Whether a function is defined in a class body: the class is then parsed as a whole."""
    scope = function.__qualname__.rpartition(".")[0]
    return scope != "" and not scope.endswith("<locals>")

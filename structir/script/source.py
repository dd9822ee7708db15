"""Finding the source text of decorated functions and classes; the reader does the rest."""

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
    """The block of a file that begins at a line."""
    lines = linecache.getlines(filename, namespace)
    if line > len(lines):
        hint = "write the program in a file or a notebook cell, or give its text to structir.parse"
        raise ParseError(Diagnostic(f"the source of {filename} cannot be found", hint=hint))
    return Source(filename, "".join(inspect.getblock(lines[line - 1 :])), line)


def module_at(
    filename: str, line: int, namespace: dict[str, Any], members: Iterable[Any] = ()
) -> IRModule:
    """The module whose class begins, decorators included, at a line."""
    evaluated_names = frozenset([name for member in members for name in _evaluated_names(member)])
    return parse_source(source_at(filename, line, namespace), evaluated_names=evaluated_names)


def _evaluated_names(function: Any) -> Iterator[str]:
    """The names of the sizes in annotations, which Python has evaluated."""
    for info in getattr(function, "__annotations__", {}).values():
        if isinstance(info, StructInfo):
            yield from (symbol.name for symbol in symbols_in(info))


def function_of(function: Callable[..., Any]) -> Function:
    """The function of the language that a Python function spells."""
    return _read(function)[function.__name__]


def kernel_of(function: Callable[..., Any]) -> Kernel:
    """The kernel that a Python function spells."""
    found = _read(function).functions[function.__name__]
    assert isinstance(found, Kernel)
    return found


def _read(function: Callable[..., Any]) -> IRModule:
    code = function.__code__
    source = source_at(code.co_filename, code.co_firstlineno, function.__globals__)
    return parse_source(source, evaluated_names=frozenset(_evaluated_names(function)))


def is_member(function: Callable[..., Any]) -> bool:
    """Whether a function stands in a class body: then the class is read as a whole."""
    around = function.__qualname__.rpartition(".")[0]
    return around != "" and not around.endswith("<locals>")

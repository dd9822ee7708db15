"""Locates the source text of decorated functions and classes, and parses it."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Iterator
from types import FrameType, FunctionType
from typing import Any

from structir.analysis.variables import symbols_in
from structir.errors import Diagnostic, ParseError, Source
from structir.ir.expr import Function
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.ir.struct_info import StructInfo
from structir.printer.parser.context import MISSING
from structir.printer.parser.macros import Macro
from structir.printer.parser.parser import parse_macro, parse_source


def source_at(filename: str, line: int, namespace: dict[str, Any]) -> Source:
    """Returns the block of a file that begins at a line; raises ParseError without a source."""
    lines = linecache.getlines(filename, namespace)
    if line > len(lines):
        hint = "write the program in a file or a notebook cell, or use `structir.parse(text)`"
        raise ParseError(Diagnostic(f"no source available for {filename}", hint=hint))
    return Source(filename, "".join(inspect.getblock(lines[line - 1 :])), line)


def module_at(frame: FrameType, line: int, cls: Any) -> IRModule:
    """Parses the class whose decorators begin at a line of a frame to a module."""
    members = [value for value in vars(cls).values() if type(value) is FunctionType]
    names = frozenset([name for member in members for name in _evaluated_names(member)])
    values = frame.f_globals | _locals_at(frame, cls.__qualname__)
    for member in members:
        values |= _closure_values(member)
    source = source_at(frame.f_code.co_filename, line, frame.f_globals)
    return parse_source(source, evaluated_names=names, python_values=_assigned(values))


def _assigned(values: dict[str, Any]) -> dict[str, Any]:
    """Returns the variables that have a value already."""
    return {name: value for name, value in values.items() if value is not MISSING}


def _locals_at(frame: FrameType, qualname: str) -> dict[str, Any]:
    """Returns the variables of the scope that defines a function or class of this name.

    A decorator that another function applies later has no such frame.
    """
    scope = qualname.rpartition(".")[0].removesuffix(".<locals>")
    is_scope = frame.f_code.co_qualname == (scope or "<module>")
    return dict(frame.f_locals) if is_scope and frame.f_locals is not frame.f_globals else {}


def _evaluated_names(function: FunctionType) -> Iterator[str]:
    """Yields the names of dims in annotations that Python has evaluated.

    Where Python evaluates annotations on demand (3.14), the program's text is their only source.
    """
    if getattr(function, "__annotate__", None) is not None:
        return
    for info in function.__annotations__.values():
        if issubclass(type(info), StructInfo):  # `isinstance` may run code
            yield from (symbol.name for symbol in symbols_in(info))


def function_of(function: FunctionType, frame: FrameType) -> Function:
    """Parses a Python function that is decorated in a frame to a function of the IR."""
    return _parse(function, frame, function.__name__)[function.__name__]


def kernel_of(function: FunctionType, frame: FrameType) -> Kernel:
    """Parses a Python function that is decorated in a frame to a kernel."""
    kernel = _parse(function, frame).functions[function.__name__]
    assert isinstance(kernel, Kernel)
    return kernel


def macro_of(function: FunctionType, frame: FrameType) -> Macro:
    """Parses a Python function that is decorated in a frame to a macro."""
    local_values = _locals_at(frame, function.__qualname__)
    code = function.__code__
    args = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    values = dict(zip(args[len(args) - len(defaults) :], defaults, strict=True))
    values |= function.__kwdefaults__ or {}
    return parse_macro(_source_of(function), lambda: _values_at(function, local_values), values)


def _parse(function: FunctionType, frame: FrameType, name: str = "") -> IRModule:
    names = frozenset(_evaluated_names(function))
    values = _values_at(function, _locals_at(frame, function.__qualname__))
    source = _source_of(function)
    return parse_source(source, evaluated_names=names, python_values=values, name=name)


def _source_of(function: FunctionType) -> Source:
    code = function.__code__
    return source_at(code.co_filename, code.co_firstlineno, function.__globals__)


def _values_at(function: FunctionType, local_values: dict[str, Any]) -> dict[str, Any]:
    """Returns globals, then variables of the enclosing function, then those that it captures."""
    values = function.__globals__ | local_values | _closure_values(function)
    return _assigned(values)


def _closure_values(function: FunctionType) -> dict[str, Any]:
    """Returns the captured variables, also those of annotations; MISSING before an assignment."""
    values: dict[str, Any] = {}
    for part in (function, getattr(function, "__annotate__", None)):
        if not isinstance(part, FunctionType):
            continue
        for name, cell in zip(part.__code__.co_freevars, part.__closure__ or (), strict=True):
            try:
                values[name] = cell.cell_contents
            except ValueError:
                values[name] = MISSING
    return values


def is_member(function: FunctionType) -> bool:
    """Whether a function is defined in a class body: the class is then parsed as a whole."""
    scope = function.__qualname__.rpartition(".")[0]
    return scope != "" and not scope.endswith("<locals>")

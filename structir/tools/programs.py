"""Reads programs for the command line: a source file, an archive, or the standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from structir.errors import Diagnostic, ParseError
from structir.lazy import lazy_module
from structir.tools.completion import functions_beginning
from structir.tools.models import import_model, is_model

if TYPE_CHECKING:
    from structir.ir.expr import Function
    from structir.ir.module import IRModule

archive = lazy_module("structir.printer.files.archive")
expr = lazy_module("structir.ir.expr")
parser = lazy_module("structir.printer.parser.parser")

ProgramFile = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="Program to read; a dash reads the standard input."),
]
FunctionName = Annotated[
    str | None,
    typer.Option(
        "--function",
        "-f",
        metavar="NAME",
        help="Name of the function to use.",
        autocompletion=functions_beginning,
    ),
]


def read_program(file: Path, strict: bool = False) -> IRModule:
    """Returns the module in a file; raises ParseError if it contains no function."""
    module = _read(file, strict)
    if not module.functions:
        hint = "decorate a function with `@R.function`, or a class of functions with `@I.ir_module`"
        raise ParseError(Diagnostic(f"{file}: no function found", hint=hint))
    return module


def _read(file: Path, strict: bool) -> IRModule:
    if str(file) == "-":
        return _parse(sys.stdin.read(), "<stdin>", strict)
    if not file.is_file():
        message = (
            f"expected a file, found the folder {file}"
            if file.is_dir()
            else f"no such file: {file}"
        )
        raise typer.BadParameter(message)
    if file.suffix == ".sir":
        loaded: IRModule = archive.load(file)
        return loaded
    if is_model(file):
        return import_model(file)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file}: cannot decode: {error}") from None
    return _parse(text, str(file), strict)


def _parse(text: str, name: str, strict: bool) -> IRModule:
    module: IRModule = parser.parse(text, name, strict=strict)
    return module


def entry(module: IRModule, name: str | None) -> tuple[str, Function]:
    """Returns the entry function: the named one, else `main`, else the only one."""
    if name is None:
        name = "main" if len(module.functions) != 1 else next(iter(module.functions))
    function = module.functions.get(name)
    if not isinstance(function, expr.Function):
        available = ", ".join(module.functions)
        raise typer.BadParameter(f"no function {name} in the program; available: {available}")
    return name, function

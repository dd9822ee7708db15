"""`structir print`: prints a program in canonical form."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from structir.lazy import lazy_module
from structir.tools.as_json import Json, write
from structir.tools.programs import FunctionName, ProgramFile, entry, read_program
from structir.tools.terminal import diagnostics, show_program

if TYPE_CHECKING:
    from structir.ir.expr import Function

expr = lazy_module("structir.ir.expr")
tvm_dialect = lazy_module("structir.tools.tvm_dialect")
PANEL = "Inspect"


class Dialect(StrEnum):
    """The spelling of a printed program."""

    STRUCTIR = "structir"
    TVM = "tvm"


def print(  # the command's name
    file: ProgramFile,
    function: FunctionName = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write to this file instead of the terminal."
        ),
    ] = None,
    dialect: Annotated[
        Dialect, typer.Option(help="The spelling: `structir`, or `tvm` for TVM 0.27.")
    ] = Dialect.STRUCTIR,
    json: Json = False,
) -> None:
    """Print a program with the StructInfo of every binding, in a form that parses back.

    Large constants are printed as references; structir.save also stores their values.

    With --dialect tvm: a program for TVM 0.27; what TVM lacks is an error with its line.

    With --json: the `text`, and of the `functions` the StructInfo of `params`, `bindings` and
    `result`.

    [bold]Examples[/bold]

        structir print model.py

        structir print model.py --function main

        structir print model.py --dialect tvm

        structir print model.sir --output model.py
    """
    with diagnostics(json):
        module = read_program(file)
        if function is not None:
            module = module.with_functions(dict([entry(module, function)]))
        text = tvm_dialect.tvm_text(module) if dialect is Dialect.TVM else module.script()
    if json:
        functions = {n: f for n, f in module.functions.items() if isinstance(f, expr.Function)}
        write({"text": text, "functions": {n: _struct_infos(f) for n, f in functions.items()}})
        return
    if output is not None:
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise typer.BadParameter(f"{output}: cannot write: {error.strerror}") from None
        return
    show_program(text)


def _struct_infos(function: Function) -> dict[str, Any]:
    """Returns the StructInfo of a function's parameters, bindings and result."""
    bindings = [
        {"name": b.var.name, "struct_info": str(b.var.struct_info)} for b in function.bindings()
    ]
    params = [{"name": p.name, "struct_info": str(p.struct_info)} for p in function.params]
    return {"params": params, "bindings": bindings, "result": str(function.ret_struct_info)}

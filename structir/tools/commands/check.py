"""`structir check`: read programs, and tell all that is wrong with them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from structir.analysis import check_well_formed
from structir.errors import DiagnosticWarning, StructIRError
from structir.ir.binding_dims import standing_alone
from structir.ir.expr import Function
from structir.ir.module import IRModule
from structir.tools.as_json import Json, errors_data, write
from structir.tools.programs import read_program
from structir.tools.terminal import ExitCode, console, diagnostics

PANEL = "Read and look"


def check(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="The programs; a dash is the standard input."),
    ],
    strict: Annotated[
        bool,
        typer.Option(help="Check annotations that cannot be decided when the program runs."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show errors only.")] = False,
    json: Json = False,
) -> None:
    """Read programs, deduce every StructInfo, and report [bold]all[/bold] that is wrong.

    Each error shows its line, what was deduced, and a hint. The exit code is 1 if there is any.

    With --json: `files`, each with its `errors`, `functions`, `bindings` and `symbolic_dims`.

    [bold]Examples[/bold]

        structir check model.py

        structir check --strict layers/*.py

        structir check --json model.py | jq '.files[].errors[].message'

        echo '@R.function ...' | structir check -
    """
    if json:
        _tell_scripts(files, strict)
        return
    table = Table("file", "functions", "bindings", "symbolic dims", box=None, header_style="bold")
    wrong = False
    for file in files:
        try:
            with diagnostics():
                module = read_program(file, strict)
                check_well_formed(module)
                functions, bindings, names = _figures(module)
                table.add_row(str(file), str(functions), str(bindings), ", ".join(names) or "none")
        except typer.Exit:
            wrong = True
    if table.row_count and not quiet:
        console().print(table)
    if wrong:
        raise typer.Exit(ExitCode.WRONG_PROGRAM)


def _tell_scripts(files: list[Path], strict: bool) -> None:
    """The same for scripts: a record for each file, with what is wrong of it."""
    records: list[dict[str, Any]] = []
    for file in files:
        record: dict[str, Any] = {"file": str(file), "errors": []}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DiagnosticWarning)
                module = read_program(file, strict)
            check_well_formed(module)
            names = ("functions", "bindings", "symbolic_dims")
            record |= dict(zip(names, _figures(module), strict=True))
        except StructIRError as error:
            record["errors"] = errors_data(error)
        records.append(record)
    write({"files": records})
    if any(record["errors"] for record in records):
        raise typer.Exit(ExitCode.WRONG_PROGRAM)


def _figures(module: IRModule) -> tuple[int, int, list[str]]:
    """How many functions and bindings there are, and the symbolic dims that a caller gives."""
    functions = [f for f in module.functions.values() if isinstance(f, Function)]
    params = [param.struct_info for function in functions for param in function.params]
    names = list({sym.name: None for sym in standing_alone(params)})
    return len(functions), sum(len(function.bindings()) for function in functions), names

"""`structir check`: read programs, and tell all that is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from structir.analysis import check_well_formed
from structir.ir.binding_dims import standing_alone
from structir.ir.expr import Function
from structir.ir.module import IRModule
from structir.tools.programs import read_program
from structir.tools.terminal import ExitCode, console, diagnostics


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
) -> None:
    """Read programs, deduce every StructInfo, and report [bold]all[/bold] that is wrong.

    Each error shows its line, what was deduced, and a hint. The exit code is 1 if there is any.

    [bold]Examples[/bold]

        structir check model.py

        structir check --strict layers/*.py

        echo '@R.function ...' | structir check -
    """
    table = Table("file", "functions", "bindings", "symbolic dims", box=None, header_style="bold")
    wrong = False
    for file in files:
        try:
            with diagnostics():
                module = read_program(file, strict)
                check_well_formed(module)
                table.add_row(str(file), *_figures(module))
        except typer.Exit:
            wrong = True
    if table.row_count and not quiet:
        console().print(table)
    if wrong:
        raise typer.Exit(ExitCode.WRONG_PROGRAM)


def _figures(module: IRModule) -> tuple[str, str, str]:
    functions = [f for f in module.functions.values() if isinstance(f, Function)]
    bindings = sum(len(function.bindings()) for function in functions)
    return str(len(functions)), str(bindings), _dims(functions)


def _dims(functions: list[Function]) -> str:
    """The symbolic dims that a caller gives, by name."""
    params = [param.struct_info for function in functions for param in function.params]
    return ", ".join({sym.name: None for sym in standing_alone(params)}) or "none"

"""`structir check`: reports all errors of programs."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import typer

from structir.errors import Diagnostic, DiagnosticError, DiagnosticWarning, StructIRError, warn
from structir.lazy import lazy_module
from structir.tools.as_json import Json, diagnostic_data, errors_data, write
from structir.tools.exit_codes import ExitCode
from structir.tools.programs import read_program
from structir.tools.terminal import console, diagnostics

if TYPE_CHECKING:
    from structir.ir.module import IRModule

rich_table = lazy_module("rich.table")
analysis = lazy_module("structir.analysis.well_formed")
single_sizes = lazy_module("structir.solver.program.single_sizes")
binding_dims = lazy_module("structir.ir.binding_dims")
dtype = lazy_module("structir.ir.dtype")
expr = lazy_module("structir.ir.expr")
PANEL = "Inspect"


def check(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Programs to check; a dash reads the standard input."),
    ],
    strict: Annotated[
        bool,
        typer.Option(
            help="Check undecidable annotations at run time; reject programs for one size only."
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
    json: Json = False,
) -> None:
    """Read programs, infer every StructInfo, and report [bold]all[/bold] errors.

    Each error has its source lines, the inferred StructInfo and a help line. The exit code is 1 if
    there are errors.

    With --json: `files`, each with its `errors`, `warnings`, `functions`, `bindings` and
    `symbolic_dims`.

    [bold]Examples[/bold]

        structir check model.py

        structir check --strict layers/*.py

        structir check --json model.py | jq '.files[].errors[].message'

        echo '@R.function ...' | structir check -
    """
    if json:
        _write_records(files, strict)
        return
    table = rich_table.Table(
        "file", "functions", "bindings", "symbolic dims", box=None, header_style="bold"
    )
    has_errors = False
    for file in files:
        try:
            with diagnostics():
                module = read_program(file, strict)
                analysis.check_well_formed(module)
                for report in _single_sizes(module, strict):
                    warn(report)
                functions, bindings, names = _statistics(module)
                table.add_row(str(file), str(functions), str(bindings), ", ".join(names) or "none")
        except typer.Exit:
            has_errors = True
    if table.row_count and not quiet:
        console().print(table)
    if has_errors:
        raise typer.Exit(ExitCode.INVALID_PROGRAM)


def _single_sizes(module: IRModule, strict: bool) -> list[Diagnostic]:
    """Returns warnings of sizes that can have one value only; with `strict`, raises them."""
    reports = single_sizes.single_sizes(module)
    if reports and strict:
        raise DiagnosticError(reports)
    return [attrs.evolve(report, severity="warning") for report in reports]


def _write_records(files: list[Path], strict: bool) -> None:
    """Prints one JSON record per file, with its errors."""
    records: list[dict[str, Any]] = []
    for file in files:
        record: dict[str, Any] = {"file": str(file), "errors": []}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DiagnosticWarning)
                module = read_program(file, strict)
            analysis.check_well_formed(module)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DiagnosticWarning)
                reports = _single_sizes(module, strict)
            record["warnings"] = list(map(diagnostic_data, reports))
            names = ("functions", "bindings", "symbolic_dims")
            record |= dict(zip(names, _statistics(module), strict=True))
        except StructIRError as error:
            record["errors"] = errors_data(error)
        records.append(record)
    write({"files": records})
    if any(record["errors"] for record in records):
        raise typer.Exit(ExitCode.INVALID_PROGRAM)


def _statistics(module: IRModule) -> tuple[int, int, list[str]]:
    """Returns the number of functions and bindings, and the symbolic dims of the parameters."""
    functions = [f for f in module.functions.values() if isinstance(f, expr.Function)]
    params = [param.struct_info for function in functions for param in function.params]
    bound = binding_dims.standing_alone(params)
    names = list({sym.name: None for sym in bound if not isinstance(sym, dtype.DtypeVar)})
    return len(functions), sum(len(function.bindings()) for function in functions), names

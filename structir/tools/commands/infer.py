"""`structir infer`: infers missing shapes."""

from __future__ import annotations

import warnings
from typing import Annotated

import typer

from structir.errors import DiagnosticWarning
from structir.lazy import lazy_module
from structir.tools.as_json import Json, write
from structir.tools.exit_codes import ExitCode
from structir.tools.programs import ProgramFile, read_program
from structir.tools.terminal import console, diagnostics, show, show_program

inference = lazy_module("structir.solver.program.inference")
solver_report = lazy_module("structir.solver.program.report")
PANEL = "Inspect"


def infer(
    file: ProgramFile,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Print every inferred shape and every open constraint."),
    ] = False,
    close: Annotated[
        bool,
        typer.Option(
            "--close",
            help="Default underdetermined parameters to the least shape.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Infer missing shapes (forward and backward) and print the program.

    Unsatisfiable constraints are an error with a minimal set of conflicting source lines.

    With --json: the `text`, and of the `functions` the `shapes` and the `open` constraints.

    [bold]Examples[/bold]

        structir infer model.py

        structir infer model.py --explain

        structir infer model.py --close > closed.py

        structir infer model.py --json | jq '.functions.main.shapes'
    """
    with diagnostics(json):
        with warnings.catch_warnings():
            # the solver decides annotations that deduction cannot
            warnings.simplefilter("ignore", DiagnosticWarning)
            module = read_program(file)
        if json:
            report = solver_report.explain(module, close=close)
            text = inference.infer(module, close=close).script()  # raises on a conflict
            write({"text": text, "functions": report.data()})
            return
        if not explain:
            show_program(inference.infer(module, close=close).script())
            return
        report = solver_report.explain(module, close=close)
    if report.conflicts:
        show(str(report))
        raise typer.Exit(ExitCode.INVALID_PROGRAM)
    console().file.write(f"{report}\n")

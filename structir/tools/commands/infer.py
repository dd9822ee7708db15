"""`structir infer`: a program with its shapes completed from operands, results and annotations."""

from __future__ import annotations

import warnings
from typing import Annotated

import typer

from structir.errors import DiagnosticWarning
from structir.lazy import lazy_module
from structir.tools.as_json import Json, write
from structir.tools.programs import ProgramFile, read_program
from structir.tools.terminal import ExitCode, console, diagnostics, show, show_program

inference = lazy_module("structir.solver.inference")
report_room = lazy_module("structir.solver.report")
PANEL = "Read and look"


def infer(
    file: ProgramFile,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show every shape found, and what stays open.")
    ] = False,
    close: Annotated[
        bool,
        typer.Option(
            "--close",
            help="Choose the least shape for parameters of which too little is known.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Complete the shapes of a program, from operands to results and back, and show it.

    What cannot hold is an error that shows the lines which together are to blame.

    With --json: the `text`, and of the `functions` the `shapes` and what stays `open`.

    [bold]Examples[/bold]

        structir infer model.py

        structir infer model.py --explain

        structir infer model.py --close > closed.py

        structir infer model.py --json | jq '.functions.main.shapes'
    """
    with diagnostics(json):
        with warnings.catch_warnings():
            # what reading alone cannot decide is what is solved here
            warnings.simplefilter("ignore", DiagnosticWarning)
            module = read_program(file)
        if json:
            report = report_room.explain(module, close=close)
            text = inference.infer(module, close=close).script()  # raises what cannot hold
            write({"text": text, "functions": report.data()})
            return
        if not explain:
            show_program(inference.infer(module, close=close).script())
            return
        report = report_room.explain(module, close=close)
    if report.conflicts:
        show(str(report))
        raise typer.Exit(ExitCode.WRONG_PROGRAM)
    console().file.write(f"{report}\n")

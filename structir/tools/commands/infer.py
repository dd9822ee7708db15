"""`structir infer`: infers missing shapes."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from structir.errors import DiagnosticWarning
from structir.lazy import lazy_module
from structir.tools.as_json import Json, write
from structir.tools.exit_codes import ExitCode
from structir.tools.models import annotate_model
from structir.tools.programs import ProgramFile, read_program
from structir.tools.terminal import console, diagnostics, show, show_program

rich_table = lazy_module("rich.table")
inference = lazy_module("structir.solver.program.inference")
solver_report = lazy_module("structir.solver.program.report")
PANEL = "Inspect"
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE.onnx",
        help="Write the ONNX model with the type of every value to this file instead of "
        "printing a program.",
    ),
]


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
    output: Output = None,
    json: Json = False,
) -> None:
    """Infer missing shapes (forward and backward) and print the program.

    Unsatisfiable constraints are an error with a minimal set of conflicting source lines.

    With --output, FILE is an ONNX model. The symbolic shape and the dtype of every value are
    written into a copy of it, also in nested graphs and functions. A computed size is an
    expression in `dim_param`, such as `2*n + 1`. Values after an unsupported op stay unknown.

    With --json: the `text`, and of the `functions` the `shapes` and the `open` constraints; with
    --output: the counts of `values`, and the `unsupported` ops.

    [bold]Examples[/bold]

        structir infer model.py

        structir infer model.py --explain

        structir infer model.py --close > closed.py

        structir infer model.py --json | jq '.functions.main.shapes'

        structir infer model.onnx -o annotated.onnx
    """
    if output is not None:
        _annotate(file, output, json)
        return
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


def _annotate(file: Path, output: Path, json: bool) -> None:
    """Writes an ONNX model with the types of its values, and reports their number."""
    if file.suffix != ".onnx" or not file.is_file():
        raise typer.BadParameter(f"--output: expected an existing .onnx file, found {file}")
    with diagnostics(json):
        model = annotate_model(file)
    try:
        model.save(output)
    except OSError as error:
        raise typer.BadParameter(f"{output}: cannot write: {error.strerror}") from None
    counts = {"total": model.total, "annotated": model.annotated, "unknown": model.unknown}
    if json:
        unsupported = {"unsupported": model.unsupported, "skipped": model.reasons}
        write({"model": str(file), "output": str(output), "values": counts, **unsupported})
        return
    table = rich_table.Table(*counts, box=None, header_style="bold", title=f"Values of {file.name}")
    table.add_row(*map(str, counts.values()))
    console().print(table)
    for op, count in model.unsupported.items():
        console().print(f"unsupported: {count} x {op}", markup=False)
    for op, reason in model.reasons.items():
        console().print(f"skipped: {op}: {reason}", markup=False)

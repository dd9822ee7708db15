"""`structir export`: exports a program as a model of another format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from structir.ir.module import IRModule
from structir.lazy import lazy_module
from structir.tools.as_json import Json, write
from structir.tools.models import onnx_needed
from structir.tools.programs import FunctionName, ProgramFile, entry, read_program
from structir.tools.terminal import console, diagnostics

onnx_export = lazy_module("structir.export.onnx.model")
stablehlo_export = lazy_module("structir.export.stablehlo.module")
PANEL = "Transform"


def export(
    file: ProgramFile,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="MODEL", help="File to write the model to."),
    ],
    onnx: Annotated[bool, typer.Option("--onnx", help="Write an ONNX model.")] = False,
    stablehlo: Annotated[
        bool, typer.Option("--stablehlo", help="Write a StableHLO module as MLIR text.")
    ] = False,
    sizes: Annotated[
        str,
        typer.Option(
            metavar="NAME=INT,...",
            help="Sizes of symbolic dims, such as `n=4`; the others are dynamic (StableHLO only).",
        ),
    ] = "",
    function: FunctionName = None,
    json: Json = False,
) -> None:
    """Export a function of a program as an ONNX model or a StableHLO module.

    A MODEL that ends in .onnx or .mlir needs no option for its format. Tuples become several inputs
    or outputs, and calls of other functions are inlined. Symbolic dims keep their names in ONNX,
    and are dynamic (`?`) in StableHLO. Ops without a form in the format are decomposed; an op
    without a decomposition is an error that names its line.

    With --json: the `output`; for ONNX its `inputs` and `outputs` and the number of `nodes`, for
    StableHLO the number of `lines`.

    [bold]Examples[/bold]

        structir export model.py -o model.onnx

        structir export model.sir --onnx -f forward -o forward.onnx

        structir export model.py --stablehlo --sizes batch=8 -o model.mlir
    """
    if not onnx and not stablehlo:
        onnx, stablehlo = output.suffix == ".onnx", output.suffix == ".mlir"
    if onnx == stablehlo:
        raise typer.BadParameter(
            "expected one format: `--onnx` or `--stablehlo`, or a MODEL that ends in .onnx or .mlir"
        )
    if sizes and onnx:
        raise typer.BadParameter("--sizes: expected --stablehlo; ONNX models keep symbolic dims")
    with diagnostics(json):
        module = read_program(file)
        name, _ = entry(module, function)
        write_model = _write_onnx if onnx else _write_stablehlo
        with _writable(output):
            facts, summary = write_model(module, output, name, sizes)
    if json:
        write({"output": str(output), **facts})
        return
    console(stderr=True).print(f"{name}: {summary}, written to {output}")


@contextmanager
def _writable(output: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise typer.BadParameter(f"{output}: cannot write: {error.strerror}") from None


Written = tuple[dict[str, Any], str]


def _write_onnx(module: IRModule, output: Path, name: str, sizes: str) -> Written:
    """Writes an ONNX model; returns its facts and a summary."""
    with onnx_needed():
        graph = onnx_export.save_onnx(module, output, name).graph
    names = {k: [v.name for v in getattr(graph, k[:-1])] for k in ("inputs", "outputs")}
    return {**names, "nodes": len(graph.node)}, f"{len(graph.node)} nodes"


def _write_stablehlo(module: IRModule, output: Path, name: str, sizes: str) -> Written:
    """Writes a StableHLO module; returns its facts and a summary."""
    text = stablehlo_export.save_stablehlo(module, output, name, sizes)
    lines = len(text.splitlines())
    return {"lines": lines}, f"{lines} lines of StableHLO"

"""`structir export`: exports a program as a model of another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from structir.lazy import lazy_module
from structir.tools.as_json import Json, write
from structir.tools.models import onnx_needed
from structir.tools.programs import FunctionName, ProgramFile, entry, read_program
from structir.tools.terminal import console, diagnostics

onnx_export = lazy_module("structir.export.onnx.model")
PANEL = "Transform"


def export(
    file: ProgramFile,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="MODEL", help="File to write the model to."),
    ],
    onnx: Annotated[bool, typer.Option("--onnx", help="Write an ONNX model.")] = False,
    function: FunctionName = None,
    json: Json = False,
) -> None:
    """Export a function of a program as an ONNX model.

    Symbolic dims keep their names, and tuples become several inputs or outputs. Calls of other
    functions are inlined. Ops without an ONNX form are decomposed; an op without a decomposition
    is an error that names its line.

    With --json: the `output`, its `inputs` and `outputs`, and the number of `nodes`.

    [bold]Examples[/bold]

        structir export model.py --onnx -o model.onnx

        structir export model.sir --onnx -f forward -o forward.onnx
    """
    if not onnx:
        raise typer.BadParameter("expected the format of the model: `--onnx`")
    with diagnostics(json):
        module = read_program(file)
        name, _ = entry(module, function)
        with onnx_needed():
            try:
                model = onnx_export.save_onnx(module, output, name)
            except OSError as error:
                message = f"{output}: cannot write: {error.strerror}"
                raise typer.BadParameter(message) from None
    graph = model.graph
    if json:
        names = {k: [v.name for v in getattr(graph, k[:-1])] for k in ("inputs", "outputs")}
        write({"output": str(output), **names, "nodes": len(graph.node)})
        return
    console(stderr=True).print(f"{name}: {len(graph.node)} nodes, written to {output}")

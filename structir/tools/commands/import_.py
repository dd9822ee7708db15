"""`structir import`: imports a model of another framework with its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from structir.lazy import lazy_module
from structir.tools.as_json import Json, write
from structir.tools.models import SUFFIXES, import_model, is_model
from structir.tools.terminal import console, diagnostics, show_program

binding_dims = lazy_module("structir.ir.binding_dims")
expr = lazy_module("structir.ir.expr")
archive = lazy_module("structir.printer.files.archive")
PANEL = "Transform"
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE.sir",
        help="Write the program and its weights to this file instead of printing the program.",
    ),
]

Names = Annotated[
    list[str] | None,
    typer.Option(
        "--rename",
        metavar="SIZE=NAME",
        help="Rename a symbolic dim of a .pt2 program, such as s77=batch; repeatable.",
    ),
]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="INPUT=SIZE,...",
        help="Declare the shape of an input of an .onnx model, such as x=batch,3,224,224;"
        " repeatable.",
    ),
]


def import_(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            exists=True,
            dir_okay=False,
            help="Model to import: an .onnx or a .pt2 file.",
        ),
    ],
    output: Output = None,
    rename: Names = None,
    shape: Shapes = None,
    json: Json = False,
) -> None:
    """Import an ONNX model or a PyTorch ExportedProgram, with its weights.

    Named sizes become symbolic dims, and values keep their names. Unsupported ops are reported
    together, with name and count.

    With --json: `model`, `bindings`, `symbolic_dims`, and the `text`, or the `output`.

    [bold]Examples[/bold]

        structir import model.onnx

        structir import model.onnx -o model.sir

        structir import model.onnx --shape x=batch,3,224,224

        structir import model.pt2 --rename s77=batch -o model.sir
    """
    if not is_model(model):
        expected = " or ".join(sorted(SUFFIXES))
        raise typer.BadParameter(f"expected a file ending in {expected}, found {model.name}")
    names = dict(_pair(text) for text in rename or ())
    shapes = dict(_shape(text) for text in shape or ())
    with diagnostics(json):
        module = import_model(model, names, shapes)
        text = module.script() if output is None else ""
    if output is None and not json:
        show_program(text)
        return
    try:
        if output is not None:
            archive.save(module, output)
    except OSError as error:
        raise typer.BadParameter(f"{output}: cannot write: {error.strerror}") from None
    functions = [f for f in module.functions.values() if isinstance(f, expr.Function)]
    count = sum(len(f.bindings()) for f in functions)
    if json:
        params = [param.struct_info for f in functions for param in f.params]
        dims = list({sym.name: None for sym in binding_dims.standing_alone(params)})
        result = {"text": text} if output is None else {"output": str(output)}
        write({"model": str(model), "bindings": count, "symbolic_dims": dims, **result})
        return
    console(stderr=True).print(f"{model.name}: {count} bindings, written to {output}")


def _pair(text: str) -> tuple[str, str]:
    size, equals, name = text.partition("=")
    if not equals or not size or not name.isidentifier():
        raise typer.BadParameter(f"--rename: expected SIZE=NAME, found {text!r}")
    return size, name


def _shape(text: str) -> tuple[str, tuple[int | str, ...]]:
    name, equals, sizes = text.rpartition("=")
    if not equals or not name:
        raise typer.BadParameter(f"--shape: expected INPUT=SIZE,..., found {text!r}")
    parts = [part.strip() for part in sizes.split(",")] if sizes else []
    if not all(parts):
        raise typer.BadParameter(f"--shape: expected a size between commas, found {text!r}")
    return name, tuple([int(part) if part.isdecimal() else part for part in parts])

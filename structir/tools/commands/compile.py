"""`structir compile`: prints the generated source of kernels."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from structir.lazy import lazy_module
from structir.tools.as_json import Json, write
from structir.tools.programs import FunctionName, ProgramFile, entry, read_program
from structir.tools.terminal import console, diagnostics

rich_syntax = lazy_module("rich.syntax")
expr = lazy_module("structir.ir.expr")
backend = lazy_module("structir.targets.compile")
PANEL = "Run"


def compile(  # the command's name
    file: ProgramFile,
    function: FunctionName = None,
    target: Annotated[str, typer.Option(help="Compilation target.")] = "cpu",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not print the source.")] = False,
    json: Json = False,
) -> None:
    """Compile a program once for all sizes and print the source of its kernels.

    A comment above each kernel lists the ops that it computes and the meaning of its names.

    With --json: `target`, `seconds`, and the `sources` by function.

    [bold]Examples[/bold]

        structir compile model.py

        structir compile model.py --function main > kernels.py
    """
    if target not in backend.targets():
        available = ", ".join(backend.targets())
        raise typer.BadParameter(f"--target: no target {target!r}; available: {available}")
    with diagnostics(json):
        module = read_program(file)
        names = [
            name for name, value in module.functions.items() if isinstance(value, expr.Function)
        ]
        names = names if function is None else [entry(module, function)[0]]
        start = time.perf_counter()
        executable = backend.compile(module, target=target)
        sources = {name: executable.source(name) for name in names}
        seconds = time.perf_counter() - start
    if json:
        write({"target": target, "seconds": seconds, "sources": sources})
        return
    out = console()
    for name, source in sources.items():
        text = f"# {name}\n{source}"
        if quiet:
            continue
        if out.is_terminal:
            out.print(rich_syntax.Syntax(text, "python", background_color="default"))
        else:
            out.file.write(text.rstrip() + "\n\n")
    console(stderr=True).print(f"compiled for {target} in {seconds:.2f} s")

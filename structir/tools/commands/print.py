"""`structir print`: a program as its canonical text, every StructInfo written out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from structir.tools.programs import FunctionName, ProgramFile, entry, read_program
from structir.tools.terminal import diagnostics, show_program


def print(  # the command's name
    file: ProgramFile,
    function: FunctionName = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write there instead of showing it."),
    ] = None,
) -> None:
    """Show a program with the StructInfo of every binding, in the text that reads back as it is.

    Large constants stand there as references; a file of structir.save holds their values too.

    [bold]Examples[/bold]

        structir print model.py

        structir print model.py --function main

        structir print model.sir --output model.py
    """
    with diagnostics():
        module = read_program(file)
        if function is not None:
            module = module.with_functions(dict([entry(module, function)]))
        text = module.script()
    if output is not None:
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise typer.BadParameter(f"{output} cannot be written: {error.strerror}") from None
        return
    show_program(text)

"""Pipelines of passes as the command line names them."""

from __future__ import annotations

import runpy
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from structir.errors import ParseError
from structir.passes import add_pass, all_passes
from structir.passes.base import Pass
from structir.passes.manager.pipeline import pipeline
from structir.tools.terminal import ExitCode, show

Own = Annotated[
    list[Path] | None,
    typer.Option("--load", metavar="FILE.py", exists=True, help="Passes of your own, read first."),
]


def passes_beginning(incomplete: str) -> list[str]:
    """How a pipeline may go on, for the shell: the names of passes after the last comma."""
    done, comma, begun = incomplete.rpartition(",")
    names = sorted(name for each in all_passes() for name in (each.name, *each.aliases))
    return [f"{done}{comma}{name}" for name in names if name.startswith(begun)]


def read_pipeline(text: str, own: Iterable[Path] | None = None) -> Pass:
    """The pass that a text describes; those of the user's own files are known too."""
    for file in own or ():
        for value in runpy.run_path(str(file)).values():
            if isinstance(value, Pass):
                add_pass(value)
    try:
        return pipeline(text)
    except ParseError as error:
        show(str(error))
        raise typer.Exit(ExitCode.WRONG_USAGE) from None

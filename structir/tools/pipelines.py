"""Reads pipelines of passes from the command line."""

from __future__ import annotations

import runpy
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from structir.errors import ParseError
from structir.lazy import lazy_module
from structir.tools.exit_codes import ExitCode
from structir.tools.terminal import show

if TYPE_CHECKING:
    from structir.passes.base import Pass

passes = lazy_module("structir.passes")
pass_base = lazy_module("structir.passes.base")
pipelines = lazy_module("structir.passes.manager.pipeline")

PassFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--load", metavar="FILE.py", exists=True, help="Python file with passes to add; repeatable."
    ),
]


def read_pipeline(
    text: str, pass_files: Iterable[Path] | None = None, *, may_be_empty: bool = False
) -> Pass:
    """Returns the pass that a pipeline describes, after adding the passes of `pass_files`."""
    for file in pass_files or ():
        for value in runpy.run_path(str(file)).values():
            if isinstance(value, pass_base.Pass):
                passes.add_pass(value)
    if may_be_empty and not text:
        nothing: Pass = pass_base.Sequential([])
        return nothing
    if not text:
        raise typer.BadParameter("expected passes: `-p cse,dce`; `structir opt --help` lists them")
    try:
        pipeline: Pass = pipelines.pipeline(text)
        return pipeline
    except ParseError as error:
        show(str(error))
        raise typer.Exit(ExitCode.INVALID_USAGE) from None

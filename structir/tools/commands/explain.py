"""`structir explain`: prints the entry of an error code."""

from __future__ import annotations

import difflib
from typing import Annotated

import typer
from rich.syntax import Syntax
from rich.table import Table

from structir.tools.as_json import Json, write
from structir.tools.explanations import Explanation, explanations
from structir.tools.terminal import console

PANEL = "Inspect"


def explain(
    code: Annotated[
        str | None, typer.Argument(metavar="CODE", help="An error code, such as E0301.")
    ] = None,
    json: Json = False,
) -> None:
    """Print the entry of an error code: its cause, an invalid program, its message, and the fix.

    Without a code, list all codes. A message shows its code in brackets: `error[E0301]`.

    With --json: `code`, `title`, `text`; without a code `codes`, each with its title.

    [bold]Examples[/bold]

        structir explain E0301

        structir explain
    """
    if code is None:
        _list(json)
        return
    entry = _entry(code.upper())
    if json:
        write({"code": entry.code, "title": entry.title, "text": entry.text})
        return
    text = f"# {entry.code}: {entry.title}\n\n{entry.text}"
    console().print(Syntax(text, "markdown", word_wrap=True, background_color="default"))


def _entry(code: str) -> Explanation:
    entry = explanations().get(code)
    if entry is None:
        close = difflib.get_close_matches(code, explanations(), 1)
        help_ = f"; did you mean {close[0]}?" if close else "; `structir explain` lists all codes"
        raise typer.BadParameter(f"unknown error code {code}{help_}", param_hint="CODE")
    return entry


def _list(json: bool) -> None:
    titles = {entry.code: entry.title for entry in explanations().values()}
    if json:
        write({"codes": titles})
        return
    table = Table(box=None, show_header=False)
    for code, title in titles.items():
        table.add_row(code, title)
    console().print(table)

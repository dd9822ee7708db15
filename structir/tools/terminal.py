"""What the commands show: consoles, the colours of diagnostics, and errors as exit codes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import typer
from rich.console import Console
from rich.highlighter import RegexHighlighter
from rich.syntax import Syntax
from rich.theme import Theme

from structir.errors import DiagnosticError, DiagnosticWarning, PassError, StructIRError
from structir.tools.as_json import write_errors


class ExitCode(IntEnum):
    """What a command tells the shell."""

    WELL = 0
    WRONG_PROGRAM = 1
    WRONG_USAGE = 2
    WRONG_RUN = 3
    WRONG_PASS = 4
    FOUND = 5
    BUG = 70
    INTERRUPTED = 130


EXIT_CODES = {
    ExitCode.WELL: "all is well",
    ExitCode.WRONG_PROGRAM: "a program is wrong, each error shown with its place",
    ExitCode.WRONG_USAGE: "the command line is wrong",
    ExitCode.WRONG_RUN: "the program went wrong when it ran",
    ExitCode.WRONG_PASS: "a pass broke the program",
    ExitCode.FOUND: "the fuzzer found a failure",
    ExitCode.BUG: "StructIR itself went wrong, which is a bug",
    ExitCode.INTERRUPTED: "it was interrupted",
}


class DiagnosticHighlighter(RegexHighlighter):
    """The colours of a diagnostic's text; what it says is the renderer's."""

    base_style = "diagnostic."
    highlights = (
        r"(?m)^(?P<error>error)(?=:)",
        r"(?m)^(?P<warning>warning)(?=:)",
        r"(?m)^(?:error|warning)(?P<message>:.*)$",
        r"(?m)^ *(?P<place>-->.*)$",
        r"(?m)^ *(?P<gutter>\d* \|)",
        r"(?m)^ *\|\s*(?P<caret>\^+)\s*$",
        r"(?m)^ *(?P<note>=) ",
        r"(?m)^ *= (?P<hint>hint:)",
    )


THEME = Theme(
    {
        "diagnostic.error": "bold red",
        "diagnostic.warning": "bold yellow",
        "diagnostic.message": "bold",
        "diagnostic.place": "blue",
        "diagnostic.gutter": "blue",
        "diagnostic.caret": "bold red",
        "diagnostic.note": "blue",
        "diagnostic.hint": "bold green",
    }
)


def console(stderr: bool = False) -> Console:
    """Where to write. Colours follow the terminal and NO_COLOR; lines of a file are not broken."""
    return Console(stderr=stderr, theme=THEME, highlight=False, soft_wrap=not stderr)


def show(text: str) -> None:
    """Write the text of a diagnostic to the standard error, in colours on a terminal."""
    highlighted = DiagnosticHighlighter()(text)
    console(stderr=True).print(highlighted, soft_wrap=True)


def show_difference(text: str) -> None:
    """Write a unified diff to the standard error, in colours on a terminal."""
    err = console(stderr=True)
    if err.is_terminal:
        err.print(Syntax(text, "diff", background_color="default", word_wrap=False))
    else:
        err.file.write(text + "\n")


def show_program(text: str) -> None:
    """Write the text of a program to the standard output, in colours on a terminal."""
    out = console()
    if out.is_terminal:
        out.print(Syntax(text, "python", background_color="default", word_wrap=False))
    else:
        out.file.write(text if text.endswith("\n") else text + "\n")


@contextmanager
def diagnostics(as_json: bool = False) -> Iterator[None]:
    """Show warnings and errors of what runs inside; an error ends the command by its exit code.
    With `as_json` the errors are what the command writes for scripts."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DiagnosticWarning)
        try:
            yield
        except StructIRError as error:
            show_warnings(caught)
            wrong_program = isinstance(error, DiagnosticError)
            if as_json:
                write_errors(error)
            else:
                show(str(error) if wrong_program else f"error: {error}")
            code = ExitCode.WRONG_PROGRAM if wrong_program else ExitCode.WRONG_RUN
            code = ExitCode.WRONG_PASS if isinstance(error, PassError) else code
            raise typer.Exit(code) from None
        show_warnings(caught)


def show_warnings(caught: list[warnings.WarningMessage]) -> None:
    """Write warnings about a program as they are; leave others to Python."""
    for warning in caught:
        if issubclass(warning.category, DiagnosticWarning):
            show(str(warning.message))
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )

"""Terminal output of the commands: consoles, diagnostics in colours, and errors as exit codes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from structir.errors import DiagnosticError, DiagnosticWarning, PassError, StructIRError
from structir.lazy import lazy_module
from structir.tools.as_json import write_errors
from structir.tools.exit_codes import ExitCode

if TYPE_CHECKING:
    from rich.console import Console

highlighting = lazy_module("structir.tools.highlighting")
rich_console = lazy_module("rich.console")
rich_syntax = lazy_module("rich.syntax")


def console(stderr: bool = False) -> Console:
    """Returns a console. Colours follow the terminal and NO_COLOR; file lines are not wrapped."""
    built: Console = rich_console.Console(
        stderr=stderr, theme=highlighting.THEME, highlight=False, soft_wrap=not stderr
    )
    return built


def show(text: str) -> None:
    """Writes a rendered diagnostic to the standard error, in colours on a terminal."""
    highlighted = highlighting.DiagnosticHighlighter()(text)
    console(stderr=True).print(highlighted, soft_wrap=True)


def show_difference(text: str) -> None:
    """Writes a unified diff to the standard error, in colours on a terminal."""
    err = console(stderr=True)
    if err.is_terminal:
        err.print(_syntax(text, "diff"))
    else:
        err.file.write(text + "\n")


def show_program(text: str) -> None:
    """Writes the text of a program to the standard output, in colours on a terminal."""
    out = console()
    if out.is_terminal:
        out.print(_syntax(text, "python"))
    else:
        out.file.write(text if text.endswith("\n") else text + "\n")


def _syntax(text: str, language: str) -> object:
    return rich_syntax.Syntax(text, language, background_color="default", word_wrap=False)


@contextmanager
def diagnostics(as_json: bool = False) -> Iterator[None]:
    """Shows warnings and errors of the enclosed code; an error exits with its exit code.

    With `as_json`, errors are written as JSON.
    """
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
            code = ExitCode.INVALID_PROGRAM if wrong_program else ExitCode.RUN_TIME_ERROR
            code = ExitCode.PASS_ERROR if isinstance(error, PassError) else code
            raise typer.Exit(code) from None
        show_warnings(caught)


def show_warnings(caught: list[warnings.WarningMessage]) -> None:
    """Shows warnings about programs without Python's prefix; other warnings are unchanged."""
    for warning in caught:
        if issubclass(warning.category, DiagnosticWarning):
            show(str(warning.message))
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )

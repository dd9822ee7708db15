"""The command `structir`: every file of the folder `commands` is one of its commands."""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
from typing import Annotated

import typer
from typer.core import TyperCommand

from structir.tools import commands

HELP = """
StructIR: a tensor IR and compiler with first-class StructInfo.

A FILE holds a program as text: a module class, or bare [bold]@R.function[/bold]s. \
A dash stands for the standard input; a file that ends in [bold].sir[/bold] is one that \
structir.save wrote.
"""

EPILOG = """
[bold]Exit codes[/bold]: 0 all is well · 1 a program is wrong, each error shown with its place · \
2 the command line is wrong · 3 the program went wrong when it ran · \
4 a pass broke the program · 5 the fuzzer found a failure.

Colours follow the terminal; the environment variable NO_COLOR turns them off.
"""


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"structir {importlib.metadata.version('structir')}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Tell the version."),
    ] = False,
) -> None:
    """What holds for every command."""


def build() -> typer.Typer:
    """The command line, with every command that the folder holds."""
    app = typer.Typer(
        name="structir",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=HELP, epilog=EPILOG)(_options)
    for file in pkgutil.iter_modules(commands.__path__):
        name = file.name.rstrip(
            "_"
        )  # a Python word, such as `import`, is a file with an underscore
        module = importlib.import_module(f"{commands.__name__}.{file.name}")
        own = getattr(module, "HELP", TyperCommand)  # a command may show more than its options
        app.command(name, cls=own, no_args_is_help=True)(getattr(module, file.name))
    return app


def main() -> None:
    """What the installed command runs."""
    build()()

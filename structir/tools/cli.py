"""The command `structir`: every file of the folder `commands` is one of its commands."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import inspect
import pkgutil
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from structir.tools import commands
from structir.tools.terminal import EXIT_CODES, ExitCode, show

HELP = """
StructIR: a tensor IR and compiler with first-class StructInfo.

A FILE holds a program as text: a module class, or bare [bold]@R.function[/bold]s. \
A dash stands for the standard input; a file that ends in [bold].sir[/bold] is one that \
structir.save wrote.
"""

EPILOG = f"""
[bold]Exit codes[/bold]: {" · ".join([f"{code:d} {told}" for code, told in EXIT_CODES.items()])}.

Colours follow the terminal; the environment variable NO_COLOR turns them off. \
[bold]--json[/bold] writes results for scripts. [bold]--install-completion[/bold] teaches your \
shell the commands, their options and the names of passes.
"""
PANELS = ("Read and look", "Run", "Change", "Find faults")  # a command's file names its own


BUG = "This is a bug in StructIR. `structir reduce` finds the smallest program that shows it."


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
    files = [file.name for file in pkgutil.iter_modules(commands.__path__)]
    modules = {name: importlib.import_module(f"{commands.__name__}.{name}") for name in files}
    for name in sorted(files, key=lambda name: _panel_place(modules[name])):
        _add(app, name, modules[name])
    return app


def _panel_place(module: ModuleType) -> int:
    panel = getattr(module, "PANEL", None)
    return PANELS.index(panel) if panel in PANELS else len(PANELS)


def _add(app: typer.Typer, name: str, module: ModuleType) -> None:
    """A file's command. A Python word, such as `import`, is a file with an underscore."""
    command = getattr(module, name)
    app.command(
        name.rstrip("_"),
        cls=getattr(module, "HELP", TyperCommand),  # a command may show more than its options
        no_args_is_help=True,
        help=help_of(command.__doc__ or ""),
        rich_help_panel=getattr(module, "PANEL", None),
    )(_guarded(command))


def _guarded(command: Callable[..., None]) -> Callable[..., None]:
    """A command that ends with an exit code of its own where it did not expect an error."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            command(*args, **options)
        except KeyboardInterrupt:
            show("interrupted")
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
            raise
        except OSError as error:
            show(f"error: {error}")
            raise typer.Exit(ExitCode.WRONG_USAGE) from None
        except Exception:
            show(f"{traceback.format_exc()}\n{BUG}")
            raise typer.Exit(ExitCode.BUG) from None

    return run


def help_of(text: str) -> str:
    """A docstring as help: the lines of a paragraph are one; examples stay as they are."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join([p if p.startswith(" ") else " ".join(p.split()) for p in paragraphs])


def main() -> None:
    """What the installed command runs."""
    build()()

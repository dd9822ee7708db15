"""The command `structir`; each file in the folder `commands` defines one of its commands.

Only the selected command is imported. The help of the others is read from their source files.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from structir.lazy import lazy_module
from structir.tools import commands
from structir.tools.exit_codes import EXIT_CODES, ExitCode
from structir.tools.sources import assigned_text, definition, package_files, tree_of
from structir.tracebacks import user_entry, user_traceback

facade = lazy_module("structir")
terminal = lazy_module("structir.tools.terminal")

HELP = """
StructIR: a tensor IR and compiler with first-class StructInfo.

FILE contains a program: Python source with a module class or top-level \
[bold]@R.function[/bold]s, an archive ([bold].sir[/bold]) of structir.save, or a model \
([bold].onnx[/bold], [bold].pt2[/bold]). A dash reads source from the standard input.
"""

EPILOG = f"""
[bold]Exit codes[/bold]: {" · ".join([f"{code:d} {text}" for code, text in EXIT_CODES.items()])}.

Colours follow the terminal; the environment variable NO_COLOR turns them off. \
[bold]--json[/bold] prints results for scripts. [bold]--install-completion[/bold] installs shell \
completion of commands, options, passes, functions and symbolic dims.
"""
PANELS = ("Inspect", "Run", "Transform", "Test and debug")  # each command file sets one
COMPLETION = "_STRUCTIR_COMPLETE"  # set by the completion scripts of shells
BUG = "This is a bug in StructIR. `structir reduce` reduces the program that triggers it."


class Commands(TyperGroup):
    """The group of all commands; imports the module of the selected command."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = dict.fromkeys(command_files(), None)  # type: ignore[assignment]  # names only

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns the names of all commands."""
        return command_names()

    def get_command(self, ctx: Any, name: str) -> TyperCommand | None:
        """Returns a command with its help but without its options."""
        return outline(name) if name in command_files() else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Returns the name, the command with its options, and the arguments of the selection."""
        name, outlined, rest = super().resolve_command(ctx, args)
        command = None if outlined is None else load_command(str(name))
        if command is not None and ctx.resilient_parsing:
            _skip_conversion(command, ctx)
        return name, command, rest

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parses the options before the command."""
        if ctx.resilient_parsing:
            _skip_conversion(self, ctx)
        return super().parse_args(ctx, args)


def _skip_conversion(command: Any, ctx: Any) -> None:
    """Skips the conversion of arguments: its imports take longer than the completion."""
    for param in command.get_params(ctx):
        param.process_value = lambda ctx, value: value


def build() -> typer.Typer:
    """Returns the command line."""
    app = _app(Commands)
    app.callback(help=HELP, epilog=EPILOG)(_options)
    return app


def _app(group: type[TyperGroup] = TyperGroup) -> typer.Typer:
    return typer.Typer(
        cls=group,
        name="structir",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def _show_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"structir {facade.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """The options of the command line as a whole."""


def command_files() -> dict[str, Path]:
    """Returns the file of every command. A Python keyword, such as `import`, ends in an
    underscore."""
    files = package_files(commands.__path__)
    return {name.rstrip("_"): file for name, file in files.items()}


def command_names() -> list[str]:
    """Returns the names of all commands, in the order of the panels."""
    return sorted(command_files(), key=lambda name: _panel_index(outline(name).rich_help_panel))


def outline(name: str) -> TyperCommand:
    """Returns a command with its help and its panel, read from its source, without options."""
    return _outline(command_files()[name])


@functools.cache
def _outline(file: Path) -> TyperCommand:
    tree = tree_of(file)
    function = definition(tree, file.stem)
    return TyperCommand(
        name=file.stem.rstrip("_"),
        help=help_of((function and ast.get_docstring(function)) or ""),
        rich_markup_mode="rich",
        rich_help_panel=assigned_text(tree, "PANEL"),
    )


def _panel_index(panel: str | None) -> int:
    return PANELS.index(panel) if panel in PANELS else len(PANELS)


def load_command(name: str) -> Any:
    """Imports the module of a command and returns the command with its options."""
    module = importlib.import_module(f"{commands.__name__}.{command_files()[name].stem}")
    command = getattr(module, module.__name__.rpartition(".")[2])
    app = _app()
    app.callback()(lambda: None)
    app.command(
        name,
        cls=getattr(module, "HELP", TyperCommand),  # a command may define its own help
        no_args_is_help=_has_required(command),
        help=help_of(command.__doc__ or ""),
        rich_help_panel=getattr(module, "PANEL", None),
    )(_guarded(command))
    group: Any = typer.main.get_command(app)
    return group.commands[name]


def _has_required(command: Callable[..., None]) -> bool:
    """Returns whether a command needs an argument: without one it shows its help."""
    parameters = inspect.signature(command).parameters.values()
    return any([each.default is inspect.Parameter.empty for each in parameters])


def _guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Returns the command with exit codes for an interrupt, a system error and an internal
    error."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            command(*args, **options)
        except KeyboardInterrupt:
            terminal.show("interrupted")
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
            raise
        except OSError as error:
            terminal.show(f"error: {error}")
            raise typer.Exit(ExitCode.INVALID_USAGE) from None
        except Exception as error:
            if user_entry(error.__traceback__) is not None:
                terminal.show(user_error(error))
                raise typer.Exit(ExitCode.INVALID_PROGRAM) from None
            terminal.show(f"{traceback.format_exc()}\n{BUG}")
            raise typer.Exit(ExitCode.INTERNAL_ERROR) from None

    return run


def user_error(error: Exception) -> str:
    """Returns the traceback of an exception in user code, such as a pass, without frames of the
    package."""
    lines = traceback.format_exception(type(error), error, user_traceback(error.__traceback__))
    return "".join(lines).rstrip()


def help_of(text: str) -> str:
    """Returns a docstring as help: joins the lines of paragraphs and leaves examples unchanged."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join([p if p.startswith(" ") else " ".join(p.split()) for p in paragraphs])


def main() -> None:
    """Runs the installed command."""
    if COMPLETION in os.environ:  # typer then skips rich, the slowest import
        sys.modules["rich"] = None  # type: ignore[assignment]
    build()()

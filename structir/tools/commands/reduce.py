"""`structir reduce`: the smallest part of a program that still fails a command."""

from __future__ import annotations

import contextlib
import io
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from structir.lazy import lazy_module
from structir.tools import cli
from structir.tools.as_json import Json, write
from structir.tools.exit_codes import ExitCode
from structir.tools.programs import ProgramFile, read_program
from structir.tools.terminal import console, diagnostics, show, show_program

if TYPE_CHECKING:
    from structir.ir.module import IRModule

rich_progress = lazy_module("rich.progress")
reduction = lazy_module("structir.tools.reduction")
PLACE = "{}"

PANEL = "Find faults"


def reduce(
    file: ProgramFile,
    command: Annotated[
        str,
        typer.Option(
            "--command", "-c", help="Failing command; {} is the program file, appended by default."
        ),
    ],
    match: Annotated[
        str,
        typer.Option(
            help="Text in the output of the failing command; only its exit code by default."
        ),
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write to this file instead of the terminal."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Remove functions, bindings, results and parameters while a command still fails.

    A failure is the exit code of the original program and, with --match, the same text. Every
    candidate is well formed. A command that starts with structir runs without a new process.

    With --json: the bindings `before` and `after`, and the `text`.

    [bold]Examples[/bold]

        structir reduce model.py -c 'structir opt {} -p my_pass --load my_pass.py --verify'

        structir reduce model.py -c 'python compile_it.py {}' --match 'IndexError' -o small.py
    """
    with diagnostics(json):
        module = read_program(file)
        whole = reduction.size_of(module)
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "program.py"
            code, said = _outcome(command, module, place)
            if code == 0 or match not in said:
                what = "does not fail" if code == 0 else f"does not show {match!r}"
                show(f"error: the command {what} on {file}: there is nothing to reduce\n{said}")
                raise typer.Exit(ExitCode.WRONG_USAGE)

            def fails(candidate: IRModule) -> bool:
                found, text = _outcome(command, candidate, place)
                return found == code and match in text

            module = _with_progress(module, fails)
    if json:
        write({"before": whole, "after": reduction.size_of(module), "text": module.script()})
    if output is not None:
        output.write_text(module.script(), encoding="utf-8")
    elif not json:
        show_program(module.script())


def _with_progress(module: IRModule, fails: object) -> IRModule:
    """Reduces the module and shows a progress bar."""
    columns = (
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.TimeElapsedColumn(),
    )
    whole = reduction.size_of(module)
    with rich_progress.Progress(*columns, console=console(stderr=True), transient=True) as progress:
        task = progress.add_task("reducing", total=max(whole, 1))

        def tell(smallest: IRModule, tries: int) -> None:
            left = reduction.size_of(smallest)
            text = f"{whole} → {left} bindings, {tries} tried"
            progress.update(task, completed=whole - left, description=text)

        small: IRModule = reduction.reduce_module(module, fails, tell)
    console(stderr=True).print(f"{whole} → {reduction.size_of(small)} bindings")
    return small


def _outcome(command: str, module: IRModule, place: Path) -> tuple[int, str]:
    """Returns the exit code of the command on a program, and its output."""
    place.write_text(module.script(), encoding="utf-8")
    words = shlex.split(command)
    if not any(PLACE in word for word in words):
        words.append(PLACE)
    words = [word.replace(PLACE, str(place)) for word in words]
    if words[0] != "structir":
        run = subprocess.run(words, capture_output=True, text=True, check=False)
        return run.returncode, run.stdout + run.stderr
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            cli.build()(words[1:])
        except SystemExit as ended:
            return int(ended.code or 0), out.getvalue()
        except Exception as error:  # a traceback is an ordinary failure
            return 1, f"{type(error).__name__}: {error}"
    return 0, out.getvalue()

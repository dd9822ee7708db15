"""`structir reduce`: the smallest part of a program on which a command still fails."""

from __future__ import annotations

import contextlib
import io
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from structir.ir.module import IRModule
from structir.tools import cli
from structir.tools.as_json import Json, write
from structir.tools.programs import ProgramFile, read_program
from structir.tools.reduction import reduced, size_of
from structir.tools.terminal import ExitCode, console, diagnostics, show, show_program

PLACE = "{}"

PANEL = "Find faults"


def reduce(
    file: ProgramFile,
    command: Annotated[
        str,
        typer.Option(
            "--command", "-c", help="What fails; {} stands for the program, else it comes last."
        ),
    ],
    match: Annotated[
        str, typer.Option(help="Text that the failure shows; without it the exit code tells.")
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write it there, not to the terminal."),
    ] = None,
    json: Json = False,
) -> None:
    """Drop functions, bindings, results and parameters for as long as a command fails as before.

    A failure is the same exit code, and the same text where --match states one. Every program
    tried is well formed. A command that starts with structir runs without a new process.

    With --json: the bindings `before` and `after`, and the `text`.

    [bold]Examples[/bold]

        structir reduce model.py -c 'structir opt {} -p my_pass --load my_pass.py --verify'

        structir reduce model.py -c 'python compile_it.py {}' --match 'IndexError' -o small.py
    """
    with diagnostics(json):
        module = read_program(file)
        whole = size_of(module)
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
        write({"before": whole, "after": size_of(module), "text": module.script()})
    if output is not None:
        output.write_text(module.script(), encoding="utf-8")
    elif not json:
        show_program(module.script())


def _with_progress(module: IRModule, fails: object) -> IRModule:
    """The reduction, with a bar of what has gone."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    whole = size_of(module)
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        task = progress.add_task("reducing", total=max(whole, 1))

        def tell(smallest: IRModule, tries: int) -> None:
            left = size_of(smallest)
            text = f"{whole} → {left} bindings, {tries} tried"
            progress.update(task, completed=whole - left, description=text)

        small = reduced(module, fails, tell)  # type: ignore[arg-type]
    console(stderr=True).print(f"{whole} → {size_of(small)} bindings")
    return small


def _outcome(command: str, module: IRModule, place: Path) -> tuple[int, str]:
    """The exit code of the command on a program, and what it shows."""
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
        except Exception as error:  # a traceback is a failure as others are
            return 1, f"{type(error).__name__}: {error}"
    return 0, out.getvalue()

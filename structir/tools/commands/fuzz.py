"""`structir fuzz`: random programs under every check."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import typer

from structir.lazy import lazy_module
from structir.tools.as_json import Json, write
from structir.tools.completion import check_names
from structir.tools.exit_codes import ExitCode
from structir.tools.sizes import refuse_unknown
from structir.tools.terminal import console, diagnostics, show

if TYPE_CHECKING:
    from structir.tools.fuzzing import Failure

rich_progress = lazy_module("rich.progress")
rich_table = lazy_module("rich.table")
checks = lazy_module("structir.tools.checks")
fuzzing = lazy_module("structir.tools.fuzzing")
reduction = lazy_module("structir.tools.reduction")
MOST_ALIKE = 4  # failures of one signature that are reduced; further ones are counted

PANEL = "Find faults"
Checks = Annotated[
    list[str] | None,
    typer.Option(
        help=f"Check to run, of {', '.join(check_names())}; repeatable.",
        autocompletion=lambda incomplete: [n for n in check_names() if n.startswith(incomplete)],
    ),
]
Folder = Annotated[
    Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder to write failures to.")
]
Saved = Annotated[
    Path | None,
    typer.Option(metavar="FILE", exists=True, dir_okay=False, help="Saved failure to check again."),
]


@attrs.define(eq=False)
class FuzzRun:
    """The programs and failures of a run of the fuzzer."""

    checks: tuple[str, ...]
    size: int
    folder: Path
    programs: int = 0
    bindings: int = 0
    passed: Counter[str] = attrs.Factory(Counter)
    failed: Counter[str] = attrs.Factory(Counter)
    seconds: Counter[str] = attrs.Factory(Counter)
    alike: Counter[str] = attrs.Factory(Counter)
    files: dict[str, Path] = attrs.Factory(dict)  # by signature

    def program(self, seed: int) -> None:
        """Runs every check on one program."""
        try:
            module = fuzzing.random_program(seed, self.size)
        except Exception as error:  # an op that has no answer for these arguments
            self.record_generation_error(seed, error)
            return
        self.bindings += reduction.size_of(module)
        for name in self.checks:
            start = time.perf_counter()
            found = fuzzing.failure(name, module, seed)
            self.seconds[name] += time.perf_counter() - start  # type: ignore[assignment]
            (self.passed if found is None else self.failed)[name] += 1
            if found is not None:
                self.keep(found)
        self.programs += 1

    def record_generation_error(self, seed: int, error: Exception) -> None:
        """Records an error in the generation of a program."""
        signature = f"draw: {fuzzing.signature_of(error)}"
        self.failed["draw"] += 1
        if signature not in self.files:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.files[signature] = place = self.folder / f"draw-{seed}.txt"
            place.write_text("".join(traceback.format_exception(error)), encoding="utf-8")

    def keep(self, found: Failure) -> None:
        """Reduces and saves a failure, unless a similar one with its ops was saved before."""
        self.alike[found.signature] += 1
        if self.alike[found.signature] <= MOST_ALIKE:
            small = fuzzing.reduce_failure(found)
            name = f"{found.signature} ({', '.join(reduction.ops_of(small.module)) or 'no op'})"
            if name not in self.files:
                self.files[name] = fuzzing.save_failure(small, self.folder)

    def __str__(self) -> str:
        return f"{self.programs} programs, {self.failed.total()} failures"

    def data(self) -> dict[str, Any]:
        """Returns the results as plain data."""
        counts = {"passed": self.passed, "failed": self.failed, "seconds": self.seconds}
        checks = {name: {what: n[name] for what, n in counts.items()} for name in self.checks}
        failures = [{"signature": s, "file": str(place)} for s, place in self.files.items()]
        sizes = {"programs": self.programs, "bindings": self.bindings}
        return {**sizes, "checks": checks, "failures": failures}

    def table(self) -> Any:
        """Returns a table of the checks and their failures."""
        title = f"{self.programs} programs, {self.bindings} bindings"
        table = rich_table.Table("check", box=None, header_style="bold", title=title)
        for name in ("passed", "failed", "seconds"):
            table.add_column(name, justify="right")
        for name in self.checks:
            seconds = f"{self.seconds[name]:.1f}"
            table.add_row(name, str(self.passed[name]), str(self.failed[name]), seconds)
        return table


def fuzz(
    minutes: Annotated[float, typer.Option(min=0, help="Time limit in minutes.")] = 1.0,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Seed of the first program; from the clock by default."),
    ] = None,
    programs: Annotated[
        int | None, typer.Option(min=1, help="Number of programs to run instead of a time limit.")
    ] = None,
    size: Annotated[
        int, typer.Option(min=1, help="Approximate number of bindings per function.")
    ] = 6,
    check: Checks = None,
    output: Folder = Path("fuzz-failures"),
    replay: Saved = None,
    json: Json = False,
) -> None:
    """Generate random programs and run every check on each: printing and parsing, passes, the
    compiled and sharded results against the interpreter, and inferred StructInfo against run-time
    values.

    A failure is reduced and written to a file; similar failures are written once. The exit code is
    5 if a check fails. The same seed generates the same programs.

    With --json: `programs`, `bindings`, `checks`, `failures`, `seed`, and whether it was
    `interrupted`.

    [bold]Examples[/bold]

        structir fuzz --minutes 10

        structir fuzz --seed 7 --programs 100 --check passes --check solver

        structir fuzz --replay fuzz-failures/passes-123.py
    """
    if replay is not None:
        _replay(replay, json)
        return
    refuse_unknown("--check", "check", check or (), set(checks.CHECKS))
    first = time.time_ns() % (1 << 31) if seed is None else seed
    campaign = FuzzRun(tuple(check or checks.CHECKS), size, output)
    interrupted = _run(campaign, _seeds(first, programs, minutes))
    if json:
        write(campaign.data() | {"seed": first, "interrupted": interrupted})
    else:
        err = console(stderr=True)
        err.print(campaign.table())
        err.print(f"seeds from {first}" + (", interrupted" if interrupted else ""))
        for signature, place in campaign.files.items():
            show(f"error: {signature}\n  --> {place}")
    if campaign.files:
        raise typer.Exit(ExitCode.FOUND)


def _seeds(first: int, programs: int | None, minutes: float) -> Iterator[int]:
    """Yields seeds until the time or the number of programs is reached."""
    start = time.monotonic()
    seed = first
    while time.monotonic() - start < 60 * minutes if programs is None else seed - first < programs:
        yield seed
        seed += 1


def _run(campaign: FuzzRun, seeds: Iterator[int]) -> bool:
    """Runs the seeds; returns whether it was interrupted."""
    columns = (
        rich_progress.SpinnerColumn(),
        rich_progress.TextColumn("{task.description}"),
        rich_progress.TimeElapsedColumn(),
    )
    with rich_progress.Progress(*columns, console=console(stderr=True), transient=True) as progress:
        task = progress.add_task("fuzzing", total=None)
        try:
            for seed in seeds:
                campaign.program(seed)
                progress.update(task, description=str(campaign))
        except KeyboardInterrupt:
            return True
    return False


def _replay(file: Path, json: bool) -> None:
    """Runs the check of a saved failure again."""
    with diagnostics(json):
        found = fuzzing.replay(file)
    if json:
        write({"failures": [{"signature": f.signature, "error": str(f.error)} for f in found]})
    for each in [] if json else found:
        show(f"error: {each.signature}\n{each.error}")
    if found:
        raise typer.Exit(ExitCode.FOUND)
    if not json:
        show(f"{file} passes")

"""`structir fuzz`: checks properties of random programs."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import typer

from structir.interrupts import interrupt_on_termination
from structir.lazy import lazy_module
from structir.tools.as_json import Json, write
from structir.tools.completion import check_names, hostile_kinds
from structir.tools.exit_codes import ExitCode
from structir.tools.sizes import reject_unknown
from structir.tools.terminal import console, diagnostics, show

if TYPE_CHECKING:
    from structir.tools.fuzzing import Failure

rich_progress = lazy_module("rich.progress")
rich_table = lazy_module("rich.table")
checks = lazy_module("structir.tools.checks")
fuzzing = lazy_module("structir.tools.fuzzing")
hostile_report = lazy_module("structir.tools.hostile.report")
reduction = lazy_module("structir.tools.reduction")
MAX_PER_SIGNATURE = 4  # failures that are reduced; further ones are only counted

PANEL = "Test and debug"
Checks = Annotated[
    list[str] | None,
    typer.Option(
        help=f"Check to run, of {', '.join(check_names())}; repeatable.",
        autocompletion=lambda incomplete: [n for n in check_names() if n.startswith(incomplete)],
    ),
]
Hostile = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help=f"Kind of hostile input to run instead, of {', '.join(hostile_kinds())}.",
        autocompletion=lambda incomplete: [n for n in hostile_kinds() if n.startswith(incomplete)],
    ),
]
Polymorphic = Annotated[
    bool,
    typer.Option(
        "--polymorphic",
        help="Generate only programs with row variables, dtype variables and ragged axes.",
    ),
]
Folder = Annotated[
    Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder to write failures to.")
]
SavedFailure = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", exists=True, dir_okay=False, help="File of a saved failure to check again."
    ),
]


@attrs.define(eq=False)
class FuzzRun:
    """The programs and failures of a run of the fuzzer."""

    checks: tuple[str, ...]
    size: int
    folder: Path
    polymorphic: bool = False
    programs: int = 0
    bindings: int = 0
    passed: Counter[str] = attrs.Factory(Counter)
    failed: Counter[str] = attrs.Factory(Counter)
    seconds: Counter[str] = attrs.Factory(Counter)
    by_signature: Counter[str] = attrs.Factory(Counter)
    files: dict[str, Path] = attrs.Factory(dict)  # by signature

    def program(self, seed: int) -> None:
        """Runs every check on one program."""
        try:
            module = fuzzing.random_program(seed, self.size, self.polymorphic)
        except Exception as error:  # for example an op that fails on constants
            self.record_generation_error(seed, error)
            return
        self.bindings += reduction.size_of(module)
        for name in self.checks:
            start = time.perf_counter()
            violation = fuzzing.failure(name, module, seed)
            self.seconds[name] += time.perf_counter() - start  # type: ignore[assignment]
            (self.passed if violation is None else self.failed)[name] += 1
            if violation is not None:
                self.record_failure(violation)
        self.programs += 1

    def record_generation_error(self, seed: int, error: Exception) -> None:
        """Records an error in the generation of a program."""
        signature = f"generate: {fuzzing.signature_of(error)}"
        self.failed["generate"] += 1
        if signature not in self.files:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.files[signature] = path = self.folder / f"generate-{seed}.txt"
            path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")

    def record_failure(self, violation: Failure) -> None:
        """Reduces and saves a failure, unless one with this signature and these ops was saved."""
        signature = violation.signature
        self.by_signature[signature] += 1
        if self.by_signature[signature] <= MAX_PER_SIGNATURE:
            try:
                small = fuzzing.reduce_failure(violation)
            except KeyboardInterrupt:
                self.save(signature, violation)
                raise
            self.save(signature, small)

    def save(self, signature: str, violation: Failure) -> None:
        """Saves a failure, unless one with this signature and these ops was saved."""
        name = f"{signature} ({', '.join(reduction.ops_of(violation.module)) or 'no op'})"
        if name not in self.files:
            self.files[name] = fuzzing.save_failure(violation, self.folder)

    def __str__(self) -> str:
        return f"{self.programs} programs, {self.failed.total()} failures"

    def data(self) -> dict[str, Any]:
        """Returns the results as plain data."""
        counts = {"passed": self.passed, "failed": self.failed, "seconds": self.seconds}
        checks = {name: {key: n[name] for key, n in counts.items()} for name in self.checks}
        failures = [{"signature": s, "file": str(path)} for s, path in self.files.items()]
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
    polymorphic: Polymorphic = False,
    hostile: Hostile = None,
    output: Folder = Path("fuzz-failures"),
    replay: SavedFailure = None,
    json: Json = False,
) -> None:
    """Generate random programs and check them.

    Checks compare printing and parsing, passes, compiled and sharded results with the interpreter,
    and inferred StructInfo with run-time values. Each failure is reduced and written to a file;
    failures with the same signature are written once. The exit code is 5 if a check fails. The same
    seed generates the same programs.

    With --hostile, each seed generates a hostile input of this kind, which a child process handles:
    a crash, a hang or a wrong result is a failure, and its message ends in the command that
    reproduces it.

    Ctrl-C or SIGTERM ends the run early; it prints the results so far.

    With --json: `programs`, `bindings`, `checks`, `failures`, `seed`, and whether it was
    `interrupted`.

    [bold]Examples[/bold]

        structir fuzz --minutes 10

        structir fuzz --seed 7 --programs 100 --check passes --check solver

        structir fuzz --polymorphic --seed 0 --programs 20000 --check erasure

        structir fuzz --hostile guard_pages --seed 0 --programs 1000

        structir fuzz --replay fuzz-failures/passes-123.py
    """
    if replay is not None:
        _replay(replay, json)
        return
    reject_unknown("--check", "check", check or (), set(checks.CHECKS))
    reject_unknown("--hostile", "kind", [hostile] if hostile else (), set(hostile_kinds()))
    first = time.time_ns() % (1 << 31) if seed is None else seed
    if hostile is not None:
        _run_hostile(hostile, first, programs, minutes, json)
        return
    fuzz_run = FuzzRun(tuple(check or checks.CHECKS), size, output, polymorphic)
    interrupted = _run(fuzz_run, _seeds(first, programs, minutes))
    _report(fuzz_run, first, interrupted, json)


def _report(fuzz_run: FuzzRun, first: int, interrupted: bool, json: bool) -> None:
    """Prints the results; exits with an error code after a failure."""
    if json:
        write(fuzz_run.data() | {"seed": first, "interrupted": interrupted})
    else:
        err = console(stderr=True)
        err.print(fuzz_run.table())
        err.print(f"seeds from {first}" + (", interrupted" if interrupted else ""))
        for signature, path in fuzz_run.files.items():
            show(f"error: {signature}\n  --> {path}")
    if fuzz_run.files:
        raise typer.Exit(ExitCode.FUZZ_FAILURE)


def _seeds(first: int, programs: int | None, minutes: float) -> Iterator[int]:
    """Yields seeds until the time or the number of programs is reached."""
    start = time.monotonic()
    seed = first
    while time.monotonic() - start < 60 * minutes if programs is None else seed - first < programs:
        yield seed
        seed += 1


def _run(fuzz_run: FuzzRun, seeds: Iterator[int]) -> bool:
    """Runs the seeds; returns whether it was interrupted."""
    columns = (
        rich_progress.SpinnerColumn(),
        rich_progress.TextColumn("{task.description}"),
        rich_progress.TimeElapsedColumn(),
    )
    bar = rich_progress.Progress(*columns, console=console(stderr=True), transient=True)
    with interrupt_on_termination(), bar as progress:
        task = progress.add_task("fuzzing", total=None)
        try:
            for seed in seeds:
                fuzz_run.program(seed)
                progress.update(task, description=str(fuzz_run))
        except KeyboardInterrupt:
            return True
    return False


def _run_hostile(kind: str, first: int, programs: int | None, minutes: float, json: bool) -> None:
    """Runs one kind of hostile input."""
    hostile_run = hostile_report.HostileRun(kind)
    hostile_run.run(_seeds(first, programs, minutes), programs)
    if json:
        write(hostile_run.data() | {"seed": first})
    else:
        show(f"{hostile_run}, seeds from {first}" + ", interrupted" * hostile_run.interrupted)
    if hostile_run.failures:
        raise typer.Exit(ExitCode.FUZZ_FAILURE)


def _replay(file: Path, json: bool) -> None:
    """Runs the check of a saved failure again."""
    with diagnostics(json):
        violations = fuzzing.replay(file)
    if json:
        write({"failures": [{"signature": f.signature, "error": str(f.error)} for f in violations]})
    for each in [] if json else violations:
        show(f"error: {each.signature}\n{each.error}")
    if violations:
        raise typer.Exit(ExitCode.FUZZ_FAILURE)
    if not json:
        show(f"{file} passes")

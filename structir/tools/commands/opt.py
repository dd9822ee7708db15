"""`structir opt`: runs a pipeline of passes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import typer
from typer.core import TyperCommand

from structir.lazy import lazy_module
from structir.tools.as_json import Json, write
from structir.tools.completion import passes_beginning
from structir.tools.exit_codes import ExitCode
from structir.tools.pipelines import PassFiles, read_pipeline
from structir.tools.programs import ProgramFile, read_program
from structir.tools.sizes import sizes_of
from structir.tools.terminal import (
    console,
    diagnostics,
    show,
    show_difference,
    show_program,
)

if TYPE_CHECKING:
    from structir.ir.module import IRModule
    from structir.passes.base import Pass
    from structir.tools.bisection import Bisection

rich_table = lazy_module("rich.table")
bisection = lazy_module("structir.tools.bisection")
explaining = lazy_module("structir.tools.why_not")
passes_package = lazy_module("structir.passes")
PANEL = "Transform"


class PassHelp(TyperCommand):
    """The help of `opt`, followed by a table of all passes."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        console().print(pass_table())


HELP = PassHelp


def pass_table() -> Any:
    """Returns a table of all passes: names, options and first lines."""
    table = rich_table.Table("pass", "description", box=None, header_style="bold", title="Passes")
    for each in passes_package.all_passes():
        name = ", ".join((each.name, *each.aliases))
        table.add_row(name + _options_of(each), each.__doc__.partition("\n\n")[0])
    return table


def _options_of(each: Pass) -> str:
    options = " ".join(f"{p.name}={_default(p.default)}" for p in each.parameters())
    return f"{{{options}}}" if options else ""


def _default(value: Any) -> str:
    return "..." if value is Any or isinstance(value, type) else str(value)


Pipeline = Annotated[
    str,
    typer.Option(
        "--passes",
        "-p",
        metavar="PIPELINE",
        help="Passes to run, such as cse,dce or simplify{rounds=2}.",
        autocompletion=passes_beginning,
    ),
]
Verify = Annotated[
    bool, typer.Option("--verify", help="Check well-formedness and results after each pass.")
]
Sizes = Annotated[
    str, typer.Option(metavar="n=4,m=8", help="With --verify: the sizes of symbolic dims.")
]
Inputs = Annotated[
    int, typer.Option(min=1, help="With --verify: the number of ordinary inputs of each function.")
]
Seed = Annotated[int, typer.Option(help="With --verify: the seed of the inputs.")]
Exact = Annotated[
    bool,
    typer.Option(
        "--exact", help="With --verify: compare over finite fields; only for ring operations."
    ),
]
Bisect = Annotated[
    bool,
    typer.Option(
        "--bisect", help="Find the first wrong pass and rule application, and a small program."
    ),
]
WhyNot = Annotated[
    list[str] | None,
    typer.Option(metavar="RULE", help="Explain why a rule does not match the resulting program."),
]
Before = Annotated[
    list[str] | None, typer.Option(metavar="PASS|all", help="Print the program before this pass.")
]
After = Annotated[
    list[str] | None, typer.Option(metavar="PASS|all", help="Print the program after this pass.")
]
Changed = Annotated[
    bool, typer.Option("--print-changed", help="Print the changes of each pass as a diff.")
]
Time = Annotated[bool, typer.Option("--time", help="Print the time of each pass.")]
Stats = Annotated[
    bool,
    typer.Option("--stats", help="Print statistics of the program before and after each pass."),
]
TraceFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Trace file to write: .html or .json.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Do not print the program.")]


def opt(
    file: ProgramFile,
    passes: Pipeline = "",
    load: PassFiles = None,
    verify: Verify = False,
    sizes: Sizes = "",
    inputs: Inputs = 2,
    seed: Seed = 0,
    exact: Exact = False,
    bisect: Bisect = False,
    why_not: WhyNot = None,
    print_before: Before = None,
    print_after: After = None,
    print_changed: Changed = False,
    time: Time = False,
    stats: Stats = False,
    trace: TraceFile = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Run passes on a program and print the result. The help ends in a table of all passes.

    With --verify the program runs on random inputs before and after each pass. The command stops
    at the first pass that changes the results, with exit code 4, and prints the pass and the input.
    It reports what was compared; it is an error if that is nothing: set --sizes. --bisect finds the
    first wrong pass, its first wrong application of a rule, and a small program that shows it.

    With --json: the `text`, and the `passes` with `seconds` and `difference`.

    [bold]Examples[/bold]

        structir opt model.py -p 'simplify{rounds=2},dce' --verify --print-changed

        structir opt model.py --load my_pass.py -p my_pass --time --trace run.html

        structir opt model.py --load my_pass.py -p cse,my_pass --bisect
    """
    applied = read_pipeline(passes, load, may_be_empty=bool(why_not))
    verifying = passes_package.VerifyResults(
        inputs, seed, sizes_of(sizes), exact=exact, strict=True
    )
    if bisect:
        _bisect(file, applied, verifying, json)
        return
    printing = passes_package.Printing(_show, print_before or (), print_after or (), print_changed)
    observers = _Observers(printing, verifying if verify else None, time, stats, trace, json)
    with diagnostics(json):
        module = observers.run(applied, read_program(file))
        explanations = {name: explaining.why_not(name, module) for name in why_not or ()}
    if json:
        record = {"text": module.script(), "passes": observers.tracing.records()}
        write(record | ({"why_not": explanations} if why_not else {}))
        return
    _print_lines(line for lines in explanations.values() for line in lines)
    if not quiet:
        show_program(module.script())


class _Observers:
    """The instruments of one run, and their reports."""

    def __init__(
        self,
        printing: Any,
        verifying: Any,
        time: bool,
        stats: bool,
        trace: Path | None,
        json: bool,
    ) -> None:
        self.verifying, self.trace = verifying, trace
        self.timing = passes_package.Timing() if time else None
        self.statistics = passes_package.Statistics() if stats else None
        self.tracing = passes_package.Trace()
        self.active = [
            printing,
            self.timing,
            self.statistics,
            self.tracing if trace is not None or json else None,
            passes_package.VerifyIR() if verifying else None,
            verifying,
        ]

    def run(self, applied: Pass, module: IRModule) -> IRModule:
        """Returns the module after a pass; writes the reports, also after an error."""
        try:
            with passes_package.PassContext([each for each in self.active if each is not None]):
                return applied(module)
        finally:
            self.report()

    def report(self) -> None:
        """Prints and writes the reports."""
        _print_lines(self.verifying.report() if self.verifying else ())
        for rendered in (
            None if self.timing is None else self.timing.tree(),
            None if self.statistics is None else self.statistics.table(),
        ):
            if rendered is not None:
                console(stderr=True).print(rendered)
        if self.trace is not None:
            self.tracing.write(self.trace)


def _bisect(file: Path, applied: Pass, verifying: Any, json: bool) -> None:
    """Reports the first wrong pass, and exits with the code of a pass error."""
    with diagnostics(json):
        module = read_program(file)
        result = bisection.bisect(
            module, applied, lambda: [passes_package.VerifyIR(), attrs.evolve(verifying)]
        )
    if json:
        write({"wrong": None} if result is None else _as_record(result))
    elif result is None:
        show("no pass changes the results")
    else:
        show("\n".join(result.lines()))
        show_program(result.program.script())
        show(str(result.error))
    if result is not None:
        raise typer.Exit(ExitCode.PASS_ERROR)


def _as_record(result: Bisection) -> dict[str, Any]:
    return {
        "wrong": str(result.wrong_pass),
        "application": result.application,
        "applications": result.applications,
        "text": result.program.script(),
        "error": str(result.error),
    }


def _show(title: str, text: str) -> None:
    show_difference(f"# {title}\n{text}")


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        console(stderr=True).print(line, markup=False, highlight=False, soft_wrap=True)

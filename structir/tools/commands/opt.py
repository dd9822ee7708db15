"""`structir opt`: runs a pipeline of passes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from structir.lazy import lazy_module
from structir.tools.as_json import Json, write
from structir.tools.completion import passes_beginning
from structir.tools.pipelines import PassFiles, read_pipeline
from structir.tools.programs import ProgramFile, read_program
from structir.tools.sizes import sizes_of
from structir.tools.terminal import (
    console,
    diagnostics,
    show_difference,
    show_program,
)

if TYPE_CHECKING:
    from structir.passes.base import Pass

rich_table = lazy_module("rich.table")
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
    It reports what was compared. If the program rejects all generated sizes, that is an error: set
    --sizes. --inputs and --seed choose more or other inputs.

    With --json: the `text`, and the `passes` with `seconds` and `difference`.

    [bold]Examples[/bold]

        structir opt model.py -p cse,dce

        structir opt model.py -p 'simplify{rounds=2},dce' --verify --print-changed

        structir opt model.py --load my_pass.py -p my_pass --time --trace run.html
    """
    applied = read_pipeline(passes, load)
    timing, tracing = passes_package.Timing(), passes_package.Trace()
    statistics = passes_package.Statistics()
    printing = passes_package.Printing(_show, print_before or (), print_after or (), print_changed)
    verifying = passes_package.VerifyResults(inputs, seed, sizes_of(sizes))
    optional = [
        (True, printing),
        (time, timing),
        (stats, statistics),
        (trace is not None or json, tracing),
        (verify, passes_package.VerifyIR()),
        (verify, verifying),
    ]
    with diagnostics(json):
        module = read_program(file)
        try:
            with passes_package.PassContext([each for enabled, each in optional if enabled]):
                module = applied(module)
        finally:
            _report(timing if time else None, statistics if stats else None, verifying)
            if trace is not None:
                tracing.write(trace)
    if json:
        write({"text": module.script(), "passes": tracing.records()})
    elif not quiet:
        show_program(module.script())


def _show(title: str, text: str) -> None:
    show_difference(f"# {title}\n{text}")


def _report(timing: Any, statistics: Any, verifying: Any) -> None:
    for line in verifying.report():
        console(stderr=True).print(line, markup=False, highlight=False, soft_wrap=True)
    if timing is not None:
        console(stderr=True).print(timing.tree())
    if statistics is not None:
        console(stderr=True).print(statistics.table())

"""`structir opt`: passes run over a program, watched on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from typer.core import TyperCommand

from structir.passes import all_passes
from structir.passes.base import Instrument, Pass, PassContext
from structir.passes.manager.printing import Printing
from structir.passes.manager.statistics import Statistics
from structir.passes.manager.timing import Timing
from structir.passes.manager.trace import Trace
from structir.passes.manager.verifying import SameResults, WellFormed
from structir.tools.as_json import Json, write
from structir.tools.pipelines import Own, passes_beginning, read_pipeline
from structir.tools.programs import ProgramFile, read_program
from structir.tools.sizes import sizes_of
from structir.tools.terminal import (
    console,
    diagnostics,
    show_difference,
    show_program,
)

PANEL = "Change"


class PassHelp(TyperCommand):
    """Help that goes on with the passes."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        console().print(pass_table())


HELP = PassHelp


def pass_table() -> Table:
    """Every pass with its short names, its options and its first line."""
    table = Table("pass", "what it does", box=None, header_style="bold", title="Passes")
    for each in all_passes():
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
        help="Passes, such as cse,dce or dce{a=1}.",
        autocompletion=passes_beginning,
    ),
]
Verify = Annotated[
    bool, typer.Option("--verify", help="After each pass: is it well formed, does it do the same?")
]
Sizes = Annotated[
    str, typer.Option(metavar="n=4,m=8", help="With --verify: the sizes of symbolic dims.")
]
Before = Annotated[
    list[str] | None, typer.Option(metavar="PASS|all", help="Show the program before it.")
]
After = Annotated[
    list[str] | None, typer.Option(metavar="PASS|all", help="Show the program after it.")
]
Changed = Annotated[
    bool, typer.Option("--print-changed", help="Show what each pass changed, as a diff.")
]
Time = Annotated[bool, typer.Option("--time", help="Show how long each pass took.")]
Stats = Annotated[bool, typer.Option("--stats", help="Show what came and went.")]
TraceFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write what happened, as .html or as .json.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Do not show the program.")]


def opt(
    file: ProgramFile,
    passes: Pipeline = "",
    load: Own = None,
    verify: Verify = False,
    sizes: Sizes = "",
    print_before: Before = None,
    print_after: After = None,
    print_changed: Changed = False,
    time: Time = False,
    stats: Stats = False,
    trace: TraceFile = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Run passes over a program and show it; below stand all passes there are.

    With --verify the program is run before and after each pass on random inputs; the first pass
    that changes a result ends the command with exit code 4, its name, and the input. What was
    compared is shown; comparing nothing is an error, and --sizes helps where no size is accepted.

    With --json: the `text`, and the `passes` with `seconds` and `difference`.

    [bold]Examples[/bold]

        structir opt model.py -p cse,dce

        structir opt model.py -p 'simplify{rounds=2},dce' --verify --print-changed

        structir opt model.py --load my_pass.py -p my_pass --time --trace run.html
    """
    applied = read_pipeline(passes, load)
    timing, counting, tracing = Timing(), Statistics(), Trace()
    printing = Printing(_show, print_before or (), print_after or (), print_changed)
    comparing = SameResults(sizes=sizes_of(sizes))
    checks: list[Instrument] = [WellFormed(), comparing]
    chosen = [
        (True, printing),
        (time, timing),
        (stats, counting),
        (trace is not None or json, tracing),
    ]
    watching = [one for wanted, one in chosen if wanted] + (checks if verify else [])
    with diagnostics(json):
        module = read_program(file)
        try:
            with PassContext(watching):
                module = applied(module)
        finally:
            _report(timing if time else None, counting if stats else None, comparing)
            if trace is not None:
                tracing.write(trace)
    if json:
        write({"text": module.script(), "passes": tracing.records()})
    elif not quiet:
        show_program(module.script())


def _show(title: str, text: str) -> None:
    show_difference(f"# {title}\n{text}")


def _report(timing: Timing | None, counting: Statistics | None, comparing: SameResults) -> None:
    for line in comparing.report():
        console(stderr=True).print(line, markup=False, highlight=False, soft_wrap=True)
    if timing is not None:
        console(stderr=True).print(timing.tree())
    if counting is not None:
        console(stderr=True).print(counting.table())

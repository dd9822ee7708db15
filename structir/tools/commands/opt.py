"""`structir opt`: a pipeline of passes on a program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from structir.lazy import lazy_module
from structir.tools.as_json import Json, write
from structir.tools.completion import passes_beginning
from structir.tools.pipelines import Own, read_pipeline
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
passes_room = lazy_module("structir.passes")
PANEL = "Change"


class PassHelp(TyperCommand):
    """Help that ends in a table of the passes."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        console().print(pass_table())


HELP = PassHelp


def pass_table() -> Any:
    """Returns a table of all passes: names, options and first lines."""
    table = rich_table.Table("pass", "what it does", box=None, header_style="bold", title="Passes")
    for each in passes_room.all_passes():
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
    """Run passes on a program and print the result. The help ends in a table of all passes.

    With --verify the program runs on random inputs before and after each pass. The command stops
    at the first pass that changes the results, with exit code 4, the pass and the input, and
    reports what was compared. Comparing nothing is an error; --sizes helps where no size is
    accepted.

    With --json: the `text`, and the `passes` with `seconds` and `difference`.

    [bold]Examples[/bold]

        structir opt model.py -p cse,dce

        structir opt model.py -p 'simplify{rounds=2},dce' --verify --print-changed

        structir opt model.py --load my_pass.py -p my_pass --time --trace run.html
    """
    applied = read_pipeline(passes, load)
    timing, counting = passes_room.Timing(), passes_room.Statistics()
    tracing = passes_room.Trace()
    printing = passes_room.Printing(_show, print_before or (), print_after or (), print_changed)
    comparing = passes_room.VerifyResults(sizes=sizes_of(sizes))
    checks = [passes_room.VerifyIR(), comparing]
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
            with passes_room.PassContext(watching):
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


def _report(timing: Any, counting: Any, comparing: Any) -> None:
    for line in comparing.report():
        console(stderr=True).print(line, markup=False, highlight=False, soft_wrap=True)
    if timing is not None:
        console(stderr=True).print(timing.tree())
    if counting is not None:
        console(stderr=True).print(counting.table())

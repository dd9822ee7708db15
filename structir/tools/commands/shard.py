"""`structir shard`: prints the sharding plan of a function."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from structir.lazy import lazy_module
from structir.tools.as_json import Json, write
from structir.tools.completion import sizes_beginning
from structir.tools.programs import FunctionName, ProgramFile, entry, read_program
from structir.tools.sizes import sizes_and_lengths_of
from structir.tools.terminal import console, diagnostics

planning = lazy_module("structir.distributed.planning")
report = lazy_module("structir.distributed.report")
cut_search = lazy_module("structir.distributed.cut_search")
sharding_export = lazy_module("structir.distributed.sharding_export")
PANEL = "Run"


Sizes = Annotated[
    str,
    typer.Option(
        "--sizes",
        "-s",
        metavar="NAME=INT,...",
        help="Sizes of symbolic dims, and row lengths of ragged parameters: n=4,x=[3,1,0,2].",
        autocompletion=sizes_beginning,
    ),
]
Dtypes = Annotated[
    str,
    typer.Option("--dtypes", metavar="NAME=DTYPE,...", help="Dtypes of variables: T=float32."),
]
Workers = Annotated[
    int,
    typer.Option("--workers", "-w", min=1, help="Number of shards; the cheapest grid is used."),
]
Grid = Annotated[
    str | None,
    typer.Option("--grid", "-g", help="Number of blocks per axis of the result, such as 2,2."),
]
Reduce = Annotated[
    int, typer.Option("--reduce", min=1, help="Number of parts to split the last reduction into.")
]
MaxBytes = Annotated[
    int | None,
    typer.Option("--max-bytes", help="Maximum bytes of inputs and results of one shard."),
]
Picture = Annotated[
    Path | None, typer.Option("--picture", help="SVG file for a picture of the blocks.")
]
Search = Annotated[
    bool,
    typer.Option("--search", help="Search cuts of every value and pipelines by simulated cost."),
]
Weights = Annotated[
    str,
    typer.Option("--weights", metavar="NAME,...", help="Parameters that are placed once."),
]
Memory = Annotated[
    float | None, typer.Option("--memory", help="Maximum bytes on a worker, with --search.")
]
Cuts = Annotated[
    str,
    typer.Option(
        "--cuts", metavar="NAME=AXIS,...", help="Axes or loops of values to fix: h=1,y=k."
    ),
]
Stages = Annotated[
    int | None, typer.Option("--stages", min=1, help="Number of pipeline stages to fix.")
]
Mesh = Annotated[str | None, typer.Option("--mesh", help="Mesh of a stage to fix, such as 4,2.")]


def shard(
    file: ProgramFile,
    sizes: Sizes = "",
    function: FunctionName = None,
    workers: Workers = 4,
    grid: Grid = None,
    reduce: Reduce = 1,
    max_bytes: MaxBytes = None,
    picture: Picture = None,
    search: Search = False,
    weights: Weights = "",
    memory: Memory = None,
    cuts: Cuts = "",
    stages: Stages = None,
    mesh: Mesh = None,
    dtypes: Dtypes = "",
    json: Json = False,
) -> None:
    """Print the sharding plan of a function: the block of every input that each shard receives.

    With --search: the cheapest plan of the whole program on a mesh of workers, the alternatives,
    and why each value is cut as it is. With --json: the `plan` as text, the `shards` with the
    bounds of all blocks, and the `traffic` by input; with --search also the shardings of all
    values for JAX and torch.

    [bold]Examples[/bold]

        structir shard model.py --sizes n=1024 --workers 4

        structir shard model.py --sizes n=1024 --grid 2,2 --picture blocks.svg

        structir shard pooling.py --sizes x=[3,1,4,1] --workers 2

        structir shard model.py --sizes n=1024 --search --workers 64 --weights v,w
    """
    block_counts = None if grid is None else _numbers("--grid", grid)
    mesh_shape = None if mesh is None else _numbers("--mesh", mesh)
    with diagnostics(json):
        module = read_program(file)
        name, _ = entry(module, function)
        options: dict[str, Any] = {"name": name, "workers": workers, "dtypes": _dtypes(dtypes)}
        options["sizes"] = sizes_and_lengths_of(sizes)
        if search:
            names = [word.strip() for word in weights.split(",") if word.strip()]
            options |= {"memory": memory, "stages": stages, "mesh": mesh_shape}
            options |= {"weights": names, "cuts": _cuts(cuts)}
            _print_search(cut_search.search(module, **options), json)
            return
        options |= {"grid": block_counts, "reduce": reduce, "max_bytes": max_bytes}
        _print_plan(planning.plan(module, **options), json, picture)


def _print_plan(plan: Any, json: bool, picture: Path | None) -> None:
    """Prints a plan, and writes its picture."""
    if json:
        write(report.plan_data(plan))
    else:
        out = console()
        out.print(report.shard_table(plan), soft_wrap=False)
        out.print(report.traffic_table(plan), soft_wrap=False)
    if picture is not None:
        picture.write_text(report.picture(plan), encoding="utf-8")


def _print_search(result: Any, json: bool) -> None:
    """Prints the report of a search."""
    if json:
        shardings = {
            "jax": sharding_export.partition_specs(result.plan),
            "torch": sharding_export.dtensor_placements(result.plan),
        }
        write({**result.data(), "shardings": shardings})
        return
    out = console()
    out.print(result.candidate_table(), soft_wrap=False)
    out.print(result.choice_table(), soft_wrap=False)


def _dtypes(text: str) -> dict[str, str]:
    """Parses dtypes of variables such as `T=float32`."""
    pairs = [part.partition("=") for part in filter(None, text.split(","))]
    if not all([name.strip() and dtype.strip() for name, _, dtype in pairs]):
        raise typer.BadParameter(f"--dtypes: expected NAME=DTYPE, found {text!r}")
    return {name.strip(): dtype.strip() for name, _, dtype in pairs}


def _cuts(text: str) -> dict[str, int | str]:
    """Parses cuts such as `h=1,y=k`: an axis, or the name of a reduction loop."""
    cuts: dict[str, int | str] = {}
    for part in filter(None, text.split(",")):
        name, equals, cut = [word.strip() for word in part.partition("=")]
        if not (name and equals and cut):
            raise typer.BadParameter(f"--cuts: expected NAME=AXIS or NAME=LOOP, found {part!r}")
        cuts[name] = int(cut) if cut.lstrip("-").isdecimal() else cut
    return cuts


def _numbers(option: str, text: str) -> list[int]:
    return [_number(option, word) for word in text.split(",")]


def _number(option: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise typer.BadParameter(f"{option}: expected whole numbers such as 2,2, found {text!r}")
    return int(text)

"""`structir shard`: prints the sharding plan of a function."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from structir.lazy import lazy_module
from structir.tools.as_json import Json, write
from structir.tools.programs import FunctionName, ProgramFile, entry, read_program
from structir.tools.sizes import Sizes, sizes_of
from structir.tools.terminal import console, diagnostics

planning = lazy_module("structir.distributed.planning")
report = lazy_module("structir.distributed.report")
PANEL = "Run"


def shard(
    file: ProgramFile,
    sizes: Sizes = "",
    function: FunctionName = None,
    workers: Annotated[
        int,
        typer.Option("--workers", "-w", min=1, help="Number of shards; the cheapest grid is used."),
    ] = 4,
    grid: Annotated[
        str | None,
        typer.Option("--grid", "-g", help="Number of blocks per axis of the result, such as 2,2."),
    ] = None,
    reduce: Annotated[
        int,
        typer.Option("--reduce", min=1, help="Number of parts to split the last reduction into."),
    ] = 1,
    max_bytes: Annotated[
        int | None,
        typer.Option("--max-bytes", help="Maximum bytes of inputs and results of one shard."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="SVG file for a picture of the blocks.")
    ] = None,
    json: Json = False,
) -> None:
    """Print the sharding plan of a function: the block of every input that each shard receives.

    With --json: the `plan` as text, the `shards` with the bounds of all blocks, and the `traffic`
    by input.

    [bold]Examples[/bold]

        structir shard model.py --sizes n=1024 --workers 4

        structir shard model.py --sizes n=1024 --grid 2,2 --picture blocks.svg
    """
    block_counts = None if grid is None else [_number(g) for g in grid.split(",")]
    with diagnostics(json):
        module = read_program(file)
        name, _ = entry(module, function)
        plan = planning.plan(
            module,
            name=name,
            grid=block_counts,
            workers=workers,
            sizes=sizes_of(sizes),
            reduce=reduce,
            max_bytes=max_bytes,
        )
        if json:
            write(report.plan_data(plan))
        else:
            out = console()
            out.print(report.shard_table(plan), soft_wrap=False)
            out.print(report.traffic_table(plan), soft_wrap=False)
        if picture is not None:
            picture.write_text(report.picture(plan), encoding="utf-8")


def _number(text: str) -> int:
    if not text.strip().isdecimal():
        raise typer.BadParameter(f"--grid: expected whole numbers such as 2,2, found {text!r}")
    return int(text)

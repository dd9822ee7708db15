"""`structir run`: a program on random inputs or on inputs from a file, and what came out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from zipfile import BadZipFile

import numpy as np
import typer
from rich.table import Table

from structir.interpret import interpret
from structir.interpret.arguments import random_arguments
from structir.ir.binding_dims import standing_alone
from structir.ir.dims import Sym
from structir.ir.expr import Function
from structir.ir.module import IRModule
from structir.lazy import lazy_module
from structir.tools.as_json import Json, write
from structir.tools.programs import FunctionName, ProgramFile, entry, read_program
from structir.tools.sizes import refuse_unknown, sizes_of
from structir.tools.terminal import console, diagnostics

backend_room = lazy_module("structir.backend.compile")
PANEL = "Run"


COLUMNS = ("value", "dtype", "shape", "mean", "std", "min", "max")


class Backend(StrEnum):
    """What runs a program."""

    interpret = "interpret"
    cpu = "cpu"


def run(
    file: ProgramFile,
    random: Annotated[
        str,
        typer.Option(
            metavar="SIZES",
            help="Sizes for symbolic dims, such as batch=4,seq=16; others get small random ones.",
        ),
    ] = "",
    inputs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npz", exists=True, help="Arrays for parameters, under their names."
        ),
    ] = None,
    backend: Annotated[Backend, typer.Option(help="What runs it.")] = Backend.cpu,
    function: FunctionName = None,
    seed: Annotated[int, typer.Option(help="Seed of the random inputs.")] = 0,
    repeat: Annotated[
        int, typer.Option(min=1, help="How often to run it; the best time is told.")
    ] = 1,
    json: Json = False,
) -> None:
    """Run a program on random inputs, and show shapes and statistics of what goes in and comes out.

    Every parameter that --inputs does not hold gets random values of the structure it asks for.

    With --json: `function`, `backend`, `seconds`, and the `values` with `dtype`, `shape` and
    statistics.

    [bold]Examples[/bold]

        structir run model.py --random batch=4,seq=16

        structir run model.py --backend interpret --seed 7

        structir run model.py --inputs batch.npz --repeat 20
    """
    with diagnostics(json):
        sizes = sizes_of(random)
        module = read_program(file)
        name, entered = entry(module, function)
        arguments = _arguments(entered, sizes, seed, inputs)
        runner = _runner(module, name, backend)
        result, seconds = _timed(runner, arguments, repeat)
    values = [(p.name, v) for p, v in zip(entered.params, arguments, strict=True)]
    rows = [row for label, value in [*values, ("result", result)] for row in _rows(label, value)]
    if json:
        told = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
        write({"function": name, "backend": backend.value, "seconds": seconds, "values": told})
        return
    table = _table()
    for row in rows:
        table.add_row(*map(_shown, row))
    console().print(table)
    console(stderr=True).print(f"{name} on {backend.value}: {seconds * 1e3:.3f} ms")


def _arguments(
    function: Function, sizes: dict[str, int], seed: int, inputs: Path | None
) -> list[Any]:
    given = _arrays(inputs) if inputs is not None else {}
    params = [param.struct_info for param in function.params]
    refuse_unknown("parameter", given, {param.name for param in function.params})
    refuse_unknown(
        "symbolic dim", sizes, {s.name for s in standing_alone(params) if type(s) is Sym}
    )
    return random_arguments(function, seed, sizes, given, among=(2, 3, 4, 5))


def _arrays(file: Path) -> dict[str, Any]:
    try:
        return dict(np.load(file).items())
    except (OSError, ValueError, AttributeError, BadZipFile):
        raise typer.BadParameter(f"{file} is no file that numpy.savez wrote") from None


def _runner(module: IRModule, name: str, backend: Backend) -> Callable[..., Any]:
    if backend is Backend.interpret:
        return lambda *arguments: interpret(module, name, *arguments)
    compiled: Callable[..., Any] = backend_room.compile(module, target=backend.value)[name]
    return compiled


def _timed(runner: Callable[..., Any], arguments: list[Any], repeat: int) -> tuple[Any, float]:
    """The result, and the shortest of the times."""
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        with np.errstate(all="ignore"):
            result = runner(*arguments)
        best = min(best, time.perf_counter() - start)
    return result, best


def _table() -> Table:
    table = Table(box=None, header_style="bold")
    for name in COLUMNS:
        table.add_column(name, justify="right" if name in COLUMNS[3:] else "left")
    return table


def _shown(entry: Any) -> str:
    if isinstance(entry, list):
        return str(tuple(entry))
    return f"{entry:.4g}" if isinstance(entry, float) else "" if entry is None else str(entry)


def _rows(label: str, value: Any) -> Iterator[tuple[Any, ...]]:
    """A row for each array in a value; shapes and numbers are given as they are."""
    if isinstance(value, tuple) and not all(isinstance(item, int) for item in value):
        for position, item in enumerate(value):
            yield from _rows(f"{label}[{position}]", item)
    elif isinstance(value, np.ndarray):
        yield (label, value.dtype.name, list(value.shape), *_statistics(value))
    else:
        yield (label, type(value).__name__, str(value), None, None, None, None)


def _statistics(array: Any) -> tuple[float | None, ...]:
    if not array.size:
        return None, None, None, None
    numbers = array.astype(np.float64)
    with np.errstate(all="ignore"):
        found = numbers.mean(), numbers.std(), numbers.min(), numbers.max()
    return tuple([float(number) for number in found])

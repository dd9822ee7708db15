"""`structir run`: a program on random inputs or on inputs from a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from zipfile import BadZipFile

import typer

from structir.lazy import lazy_module
from structir.tools.as_json import Json, write
from structir.tools.programs import FunctionName, ProgramFile, entry, read_program
from structir.tools.sizes import Sizes, reject_unknown, sizes_for
from structir.tools.terminal import console, diagnostics

if TYPE_CHECKING:
    from structir.ir.expr import Function
    from structir.ir.module import IRModule

np = lazy_module("numpy")
rich_table = lazy_module("rich.table")
arrays = lazy_module("structir.interpret.arguments")
compilation = lazy_module("structir.targets.compile")
interpreter = lazy_module("structir.interpret")
ragged_array = lazy_module("structir.ir.ragged_array")
PANEL = "Run"

COLUMNS = ("value", "dtype", "shape", "mean", "std", "min", "max")


class ExecutionBackend(StrEnum):
    """A backend that executes programs."""

    interpret = "interpret"
    cpu = "cpu"


def run(
    file: ProgramFile,
    sizes: Sizes = "",
    inputs: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npz", exists=True, help="Arrays by parameter name."),
    ] = None,
    backend: Annotated[
        ExecutionBackend, typer.Option(help="Backend to execute with.")
    ] = ExecutionBackend.cpu,
    function: FunctionName = None,
    seed: Annotated[int, typer.Option(help="Seed of the random inputs.")] = 0,
    repeat: Annotated[int, typer.Option(min=1, help="Number of calls.")] = 1,
    json: Json = False,
) -> None:
    """Run a program on random inputs and print shapes and statistics of inputs and results.

    Parameters that --inputs does not name get random values that match their StructInfo. Symbolic
    dims that --sizes does not name get small random sizes. The times of compilation, of the first
    call and of later calls (median) are reported separately.

    With --json: `function`, `backend`, the `seconds` to `compile`, of the `first_call` and of
    `later_calls`, and the `values` with `dtype`, `shape` and statistics.

    [bold]Examples[/bold]

        structir run model.py --sizes batch=4,seq=16

        structir run model.py --backend interpret --seed 7

        structir run model.py --inputs batch.npz --repeat 20
    """
    with diagnostics(json):
        module = read_program(file)
        name, entered = entry(module, function)
        arguments = _arguments(entered, sizes, seed, inputs)
        runner, compile_seconds = _runner(module, name, backend)
        result, calls = _timed(runner, arguments, repeat)
    times = Times(compile_seconds, calls[0], float(np.median(calls[1:])) if calls[1:] else None)
    values = [(p.name, v) for p, v in zip(entered.params, arguments, strict=True)]
    rows = [row for label, value in [*values, ("result", result)] for row in _rows(label, value)]
    if json:
        values_data = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
        write(
            {
                "function": name,
                "backend": backend.value,
                "seconds": times._asdict(),
                "values": values_data,
            }
        )
        return
    table = _table()
    for row in rows:
        table.add_row(*map(_shown, row))
    console().print(table)
    console(stderr=True).print(f"{name} on {backend.value}: {times.shown(repeat)}", soft_wrap=True)


class Times(NamedTuple):
    """Seconds to compile, of the first call, and the median of the later calls."""

    compile: float | None
    first_call: float
    later_calls: float | None

    def shown(self, repeat: int) -> str:
        """Returns the times as one line."""
        labels = ("compile", "first call", f"later calls (median of {repeat - 1})")
        measured = [(label, s) for label, s in zip(labels, self, strict=True) if s is not None]
        return ", ".join([f"{label} {seconds * 1e3:.3f} ms" for label, seconds in measured])


def _arguments(function: Function, sizes: str, seed: int, inputs: Path | None) -> list[Any]:
    values = _arrays(inputs) if inputs is not None else {}
    reject_unknown("--inputs", "parameter", values, {param.name for param in function.params})
    dim_sizes = sizes_for(function, sizes)
    arguments: list[Any] = arrays.random_arguments(
        function, seed, dim_sizes, values, among=(2, 3, 4, 5)
    )
    return arguments


def _arrays(file: Path) -> dict[str, Any]:
    try:
        return dict(np.load(file).items())
    except (OSError, ValueError, AttributeError, BadZipFile):
        message = f"--inputs: expected a file of numpy.savez, found {file}"
        raise typer.BadParameter(message) from None


def _runner(
    module: IRModule, name: str, backend: ExecutionBackend
) -> tuple[Callable[..., Any], float | None]:
    """Returns the function as a callable, and the seconds of its compilation."""
    if backend is ExecutionBackend.interpret:
        return lambda *arguments: interpreter.interpret(module, name, *arguments), None
    compile_ = compilation.compile  # imports the backend before the timed part
    start = time.perf_counter()
    compiled: Callable[..., Any] = compile_(module, target=backend.value)[name]
    return compiled, time.perf_counter() - start


def _timed(
    runner: Callable[..., Any], arguments: list[Any], repeat: int
) -> tuple[Any, list[float]]:
    """Returns the result and the seconds of each call."""
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        with np.errstate(all="ignore"):
            result = runner(*arguments)
        seconds.append(time.perf_counter() - start)
    return result, seconds


def _table() -> Any:
    table = rich_table.Table(box=None, header_style="bold")
    for name in COLUMNS:
        table.add_column(name, justify="right" if name in COLUMNS[3:] else "left")
    return table


def _shown(entry: Any) -> str:
    if isinstance(entry, list):
        return str(tuple(entry))
    return f"{entry:.4g}" if isinstance(entry, float) else "" if entry is None else str(entry)


def _rows(label: str, value: Any) -> Iterator[tuple[Any, ...]]:
    """Yields a row for each array, shape and number in a value."""
    if isinstance(value, tuple) and not all(isinstance(item, int) for item in value):
        for position, item in enumerate(value):
            yield from _rows(f"{label}[{position}]", item)
    elif isinstance(value, ragged_array.RaggedArray):
        yield from _rows(f"{label} values", value.values)
        yield from _rows(f"{label} offsets", value.offsets)
    elif isinstance(value, np.ndarray):
        yield (label, value.dtype.name, list(value.shape), *_statistics(value))
    else:
        yield (label, type(value).__name__, str(value), None, None, None, None)


def _statistics(array: Any) -> tuple[float | None, ...]:
    if not array.size:
        return None, None, None, None
    numbers = array.astype(np.float64)
    with np.errstate(all="ignore"):
        moments = numbers.mean(), numbers.std(), numbers.min(), numbers.max()
    return tuple([float(number) for number in moments])

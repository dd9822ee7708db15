"""`structir bench`: the time spent in each kernel of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from structir.lazy import lazy_module
from structir.tools.as_json import Json, write
from structir.tools.programs import FunctionName, ProgramFile, entry, read_program
from structir.tools.sizes import Sizes, sizes_for
from structir.tools.terminal import console, diagnostics

if TYPE_CHECKING:
    from structir.ir.expr import Function

backend = lazy_module("structir.targets.compile")
inputs = lazy_module("structir.interpret.arguments")
PANEL = "Run"


def bench(
    file: ProgramFile,
    sizes: Sizes = "",
    function: FunctionName = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Number of threads per kernel.")
    ] = None,
    repeat: Annotated[
        int, typer.Option(min=1, help="Number of timed calls; times are medians.")
    ] = 20,
    seed: Annotated[int, typer.Option(help="Seed of the random inputs.")] = 0,
    json: Json = False,
) -> None:
    """Compile a program, call it on random inputs, and print the time spent in each kernel.

    Symbolic dims that --sizes does not name get small random sizes.

    With --json: `function`, `shapes`, `seconds`, the `kernels` with `ops`, `runs` and rates, and
    the `fallbacks` to the host.

    [bold]Examples[/bold]

        structir bench model.py --sizes batch=8,seq=128

        structir bench model.py --function main --threads 2 --repeat 100

        structir bench model.py --json | jq '.kernels[0].seconds'
    """
    with diagnostics(json):
        module = read_program(file)
        name, entered = entry(module, function)
        dim_sizes = sizes_for(entered, sizes)
        arguments = inputs.random_arguments(entered, seed, dim_sizes, among=(2, 3, 4, 5))
        executable = backend.compile(module, num_threads=threads)
        profile = executable.profile(*arguments, name=name, repeat=repeat)
    if json:
        write({"function": name, "shapes": _shapes(entered, arguments), **profile.data()})
    else:
        console().print(profile.table())


def _shapes(function: Function, arguments: list[Any]) -> dict[str, Any]:
    pairs = zip(function.params, arguments, strict=True)
    return {p.name: list(a.shape) for p, a in pairs if hasattr(a, "shape")}

"""`structir bench`: how long a program takes, kernel by kernel."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from structir.interpret.arguments import random_arguments
from structir.ir.binding_dims import standing_alone
from structir.ir.expr import Function
from structir.lazy import lazy_module
from structir.tools.as_json import Json, write
from structir.tools.programs import FunctionName, ProgramFile, entry, read_program
from structir.tools.sizes import refuse_unknown, sizes_of
from structir.tools.terminal import console, diagnostics

backend = lazy_module("structir.backend.compile")
PANEL = "Run"


def bench(
    file: ProgramFile,
    random: Annotated[
        str,
        typer.Option(
            metavar="SIZES",
            help="Sizes for symbolic dims, such as batch=4,seq=16; others get small random ones.",
        ),
    ] = "",
    function: FunctionName = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="How many threads share a kernel.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="How many calls the medians are of.")] = 20,
    seed: Annotated[int, typer.Option(help="Seed of the random inputs.")] = 0,
    json: Json = False,
) -> None:
    """Compile a program, call it on random inputs, and show where the time goes.

    With --json: `function`, `shapes`, `seconds`, the `kernels` with `ops`, `runs` and rates, and
    what is `left_to_host`.

    [bold]Examples[/bold]

        structir bench model.py --random batch=8,seq=128

        structir bench model.py --function main --threads 2 --repeat 100

        structir bench model.py --json | jq '.kernels[0].seconds'
    """
    with diagnostics(json):
        sizes = sizes_of(random)
        module = read_program(file)
        name, entered = entry(module, function)
        known = {sym.name for sym in standing_alone([p.struct_info for p in entered.params])}
        refuse_unknown("symbolic dim", sizes, known)
        arguments = random_arguments(entered, seed, sizes, among=(2, 3, 4, 5))
        executable = backend.compile(module, num_threads=threads)
        profile = executable.profile(*arguments, name=name, repeat=repeat)
    if json:
        write({"function": name, "shapes": _shapes(entered, arguments), **profile.data()})
    else:
        console().print(profile.table())


def _shapes(function: Function, arguments: list[Any]) -> dict[str, Any]:
    both = zip(function.params, arguments, strict=True)
    return {p.name: list(a.shape) for p, a in both if hasattr(a, "shape")}

"""`structir view`: a program as one HTML page to look around in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from structir.ir.binding_dims import standing_alone
from structir.ir.module import IRModule
from structir.lazy import lazy_module
from structir.passes.base import PassContext
from structir.passes.manager.trace import Trace
from structir.tools.as_json import Json, write
from structir.tools.pipelines import Own, passes_beginning, read_pipeline
from structir.tools.programs import FunctionName, ProgramFile, entry, read_program
from structir.tools.sizes import refuse_unknown, sizes_of
from structir.tools.terminal import console, diagnostics

explorer = lazy_module("structir.tools.explorer.page")
kernels = lazy_module("structir.tools.explorer.kernels")
PANEL = "Read and look"
Passes = Annotated[
    str,
    typer.Option(
        "--passes",
        "-p",
        metavar="PIPELINE",
        help="Run these passes, and show each step.",
        autocompletion=passes_beginning,
    ),
]
Page = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="PAGE.html", help="Where to write the page; else FILE.html."
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="SIZES",
        help="Compile it, time its kernels on random inputs of sizes such as batch=4,seq=16.",
    ),
]


def view(
    file: ProgramFile,
    passes: Passes = "",
    output: Page = None,
    load: Own = None,
    function: FunctionName = None,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Write one page that shows a program: its graph, its text, its kernels, its passes.

    The page needs no network and no server. Choose a value to see where it comes from, the kernel
    that computes it, and why each of its sizes is what it is. Press / to search.

    With --json: the `page` and its `bytes`.

    [bold]Examples[/bold]

        structir view model.py

        structir view model.onnx -p simplify,fold_constant -o page.html

        structir view model.py --profile batch=8,seq=128
    """
    pipeline = read_pipeline(passes, load) if passes else None
    with diagnostics(json):
        module = read_program(file)
        if function is not None:
            module = module.with_functions(dict([entry(module, function)]))
        timed = None if profile is None else _timed(module, function, profile)
        trace = Trace()
        if pipeline is not None:
            with PassContext([trace]):
                pipeline(module)
        text = explorer.page(module, file.name, trace.steps, timed)
    place = output or Path(f"{'program' if str(file) == '-' else file.stem}.html")
    try:
        place.write_text(text, encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"{place} cannot be written: {error.strerror}") from None
    if json:
        write({"page": str(place), "bytes": len(text.encode())})
        return
    console(stderr=True).print(f"{place}: {len(text) / 1024:,.0f} kB; open it in a browser")


def _timed(module: IRModule, function: str | None, text: str) -> Any:
    """What is to be timed, at sizes as they are written."""
    name, entered = entry(module, function)
    sizes = sizes_of(text)
    known = {sym.name for sym in standing_alone([p.struct_info for p in entered.params])}
    refuse_unknown("symbolic dim", sizes, known)
    return kernels.Timed(sizes, name)

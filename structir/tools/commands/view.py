"""`structir view`: writes a program as one interactive HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from structir.lazy import lazy_module
from structir.tools.as_json import Json, write
from structir.tools.completion import passes_beginning
from structir.tools.pipelines import PassFiles, read_pipeline
from structir.tools.programs import FunctionName, ProgramFile, entry, read_program
from structir.tools.sizes import Sizes, sizes_for
from structir.tools.terminal import console, diagnostics

if TYPE_CHECKING:
    from structir.ir.module import IRModule

pass_base = lazy_module("structir.passes.base")
tracing = lazy_module("structir.passes.manager.trace")
explorer = lazy_module("structir.tools.explorer.page")
kernels = lazy_module("structir.tools.explorer.kernels")
PANEL = "Inspect"
Passes = Annotated[
    str,
    typer.Option(
        "--passes",
        "-p",
        metavar="PIPELINE",
        help="Passes to run; the page includes the program after each of them.",
        autocompletion=passes_beginning,
    ),
]
Page = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="PAGE.html", help="Page to write; FILE.html by default."
    ),
]
Profile = Annotated[
    bool, typer.Option("--profile", help="Compile the program and time its kernels.")
]


def view(
    file: ProgramFile,
    passes: Passes = "",
    output: Page = None,
    load: PassFiles = None,
    function: FunctionName = None,
    profile: Profile = False,
    sizes: Sizes = "",
    json: Json = False,
) -> None:
    """Write an interactive HTML page with the graph, source, kernels and passes of a program.

    The page needs no network and no server. Select a value to inspect its operands, its users, the
    kernel that computes it, and the derivation of its sizes.

    With --profile, kernels run on random inputs; symbolic dims that --sizes does not name get small
    random sizes.

    With --json: the `page` and its `bytes`.

    [bold]Examples[/bold]

        structir view model.py

        structir view model.onnx -p simplify,fold_constant -o page.html

        structir view model.py --profile --sizes batch=8,seq=128
    """
    if sizes and not profile:
        raise typer.BadParameter("--sizes needs --profile")
    pipeline = read_pipeline(passes, load) if passes else None
    with diagnostics(json):
        module = read_program(file)
        if function is not None:
            module = module.with_functions(dict([entry(module, function)]))
        options = _profile_options(module, function, sizes) if profile else None
        trace = tracing.Trace()
        if pipeline is not None:
            with pass_base.PassContext([trace]):
                pipeline(module)
        text = explorer.page(module, file.name, trace.steps, options)
    path = output or Path(f"{'program' if str(file) == '-' else file.stem}.html")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"{path}: cannot write: {error.strerror}") from None
    if json:
        write({"page": str(path), "bytes": len(text.encode())})
        return
    console(stderr=True).print(f"{path}: {len(text) / 1024:,.0f} kB; open it in a browser")


def _profile_options(module: IRModule, function: str | None, text: str) -> Any:
    """Returns the function to time and its sizes."""
    name, entered = entry(module, function)
    return kernels.ProfileOptions(sizes_for(entered, text), name)

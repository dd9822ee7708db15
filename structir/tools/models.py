"""Models of other systems as the command line reads them, with a bar on what takes long."""

from __future__ import annotations

from pathlib import Path

from rich.progress import Progress

from structir.errors import MissingExtraError
from structir.ir.module import IRModule
from structir.lazy import lazy_module
from structir.tools.terminal import console

onnx_room = lazy_module("structir.frontend.onnx.model")
SUFFIXES = frozenset({".onnx"})


def is_model(file: Path) -> bool:
    """Whether a file is a model of another system, by its name."""
    return file.suffix in SUFFIXES


def imported(file: Path) -> IRModule:
    """The module of a model; a bar tells how far it is."""
    with Progress(console=console(stderr=True), transient=True) as progress:
        bar = progress.add_task("importing", total=None)

        def show(done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total)

        try:
            module: IRModule = onnx_room.from_onnx(file, progress=show)
        except ModuleNotFoundError as error:
            if error.name != "onnx":
                raise
            raise MissingExtraError("models need onnx: pip install structir[onnx]") from None
    return module

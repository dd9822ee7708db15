"""Imports models of other frameworks for the command line, with a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from structir.errors import MissingExtraError
from structir.lazy import lazy_module
from structir.tools.terminal import console

if TYPE_CHECKING:
    from structir.frontend.onnx.annotation.annotate import AnnotatedModel
    from structir.ir.module import IRModule

rich_progress = lazy_module("rich.progress")
onnx_annotation = lazy_module("structir.frontend.onnx.annotation.annotate")
onnx_model = lazy_module("structir.frontend.onnx.model")
torch_model = lazy_module("structir.frontend.torch.model")


Shapes = Mapping[str, Sequence[int | str]]
Show = Callable[[int, int], None]


def _import_onnx(file: Path, names: Mapping[str, str], shapes: Shapes, show: Show) -> Any:
    if names:
        raise typer.BadParameter(
            "--rename: expected a .pt2 file; the dims of ONNX models have names"
        )
    return onnx_model.from_onnx(file, shapes=shapes, progress=show)


def _import_torch(file: Path, names: Mapping[str, str], shapes: Shapes, show: Show) -> Any:
    if shapes:
        raise typer.BadParameter("--shape: expected an .onnx file; torch.export fixed the shapes")
    return torch_model.from_pt2(file, names=names, progress=show)


IMPORTERS: dict[str, Callable[..., Any]] = {".onnx": _import_onnx, ".pt2": _import_torch}
SUFFIXES = frozenset(IMPORTERS)


def is_model(file: Path) -> bool:
    """Returns whether a file is a model of another framework, by its suffix."""
    return file.suffix in SUFFIXES


def import_model(
    file: Path, names: Mapping[str, str] | None = None, shapes: Shapes | None = None
) -> IRModule:
    """Imports a model and shows a progress bar. `names` maps its dims to other names, `shapes`
    declares its inputs."""
    module: IRModule = _with_progress(
        "importing", lambda show: IMPORTERS[file.suffix](file, names or {}, shapes or {}, show)
    )
    return module


def annotate_model(file: Path) -> AnnotatedModel:
    """Infers the types of an ONNX model's values and shows a progress bar."""
    annotated: AnnotatedModel = _with_progress(
        "inferring", lambda show: onnx_annotation.annotate(file, progress=show)
    )
    return annotated


def _with_progress(title: str, work: Callable[[Callable[[int, int], None]], Any]) -> Any:
    with rich_progress.Progress(console=console(stderr=True), transient=True) as progress:
        bar = progress.add_task(title, total=None)

        def show(completed: int, total: int) -> None:
            progress.update(bar, completed=completed, total=total)

        with onnx_needed():
            return work(show)


@contextmanager
def onnx_needed() -> Iterator[None]:
    """Raises MissingExtraError if the enclosed code cannot import onnx."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "onnx":
            raise
        raise MissingExtraError("models need onnx: pip install structir[onnx]") from None

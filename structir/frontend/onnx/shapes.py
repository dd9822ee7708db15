"""`shapes_of`: the sizes of every value of a model, as far as they follow from its inputs."""

from __future__ import annotations

from structir.frontend.onnx.model import Model, imported
from structir.ir import dims
from structir.ir.struct_info import TensorStructInfo

Sizes = list[int | str | None]


def shapes_of(model: Model) -> dict[str, Sizes | None]:
    """The sizes of the values of all graphs, those of bodies within nodes too, by their names.

    A size is a number, or a text over the names of the inputs' sizes and of those that are only
    known when the model runs; None stands for values of unknown rank, and for what is no tensor.
    """
    _, infos = imported(model, everything=True)
    return {name: _sizes(info) for name, info in infos.items()}


def _sizes(info: object) -> Sizes | None:
    if not isinstance(info, TensorStructInfo) or info.ndim is None:
        return None
    if not isinstance(info.dims, tuple):
        return [None] * info.ndim
    return [d if isinstance(d, int) else dims.python_text(d, lambda s: s.name) for d in info.dims]

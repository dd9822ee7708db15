"""`shapes_of`: shape inference for every value of an ONNX model."""

from __future__ import annotations

from structir.frontend.onnx.model import Model, import_model
from structir.ir import dims
from structir.ir.struct_info import TensorStructInfo

Sizes = list[int | str | None]


def shapes_of(model: Model) -> dict[str, Sizes | None]:
    """Returns the inferred shapes of the values of all graphs, including nested ones, by name.

    A size is an int, or a string: an expression over the named input sizes and the data-dependent
    sizes. The shape is None for a value of unknown rank and for a value that is not a tensor.
    """
    _, infos = import_model(model, all_branches=True)
    return {key.name: _sizes(info) for key, info in infos.items()}


def _sizes(info: object) -> Sizes | None:
    if not isinstance(info, TensorStructInfo) or info.ndim is None:
        return None
    if not isinstance(info.dims, tuple):
        return [None] * info.ndim
    return [d if isinstance(d, int) else dims.python_text(d, lambda s: s.name) for d in info.dims]

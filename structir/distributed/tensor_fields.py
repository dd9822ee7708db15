"""The tensors among the fields of a StructInfo."""

from __future__ import annotations

from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo

Path = tuple[int, ...]


def tensors(info: StructInfo | None) -> list[TensorStructInfo]:
    """Returns the tensors of a StructInfo, in order."""
    if isinstance(info, TupleStructInfo):
        return [tensor for field in info.fields for tensor in tensors(field)]
    return [info] if isinstance(info, TensorStructInfo) else []


def has_known_sizes(info: StructInfo | None) -> bool:
    """Whether each tensor has a size for each axis."""
    return all(isinstance(tensor.dims, tuple) for tensor in tensors(info))


def paths(info: StructInfo, path: Path = ()) -> list[Path]:
    """Returns the path of every tensor of a StructInfo."""
    if isinstance(info, TupleStructInfo):
        return [p for k, field in enumerate(info.fields) for p in paths(field, (*path, k))]
    return [path] if isinstance(info, TensorStructInfo) else []

"""The ONNX types of the values of an annotated model."""

from __future__ import annotations

from collections.abc import Iterable

from onnx import TensorShapeProto, TypeProto

from structir.frontend.onnx.annotation.dim_names import DimNames
from structir.frontend.onnx.types import is_size_name, type_of_info
from structir.ir.struct_info import StructInfo, TensorStructInfo


def type_of_value(
    info: StructInfo | None, onnx_type: TypeProto | None, names: DimNames
) -> TypeProto:
    """Returns the type of a value: the ONNX type where the StructInfo is less exact."""
    if onnx_type is not None and onnx_type.WhichOneof("value") != "tensor_type":
        return without_sizes(onnx_type)
    result = type_of_info(info) if isinstance(info, TensorStructInfo) else TypeProto()
    if result.WhichOneof("value") is None and onnx_type is not None:
        result.tensor_type.elem_type = onnx_type.tensor_type.elem_type
    has_dtype = result.tensor_type.elem_type != 0
    if has_dtype and isinstance(info, TensorStructInfo) and info.ndim is not None:
        _set_sizes(result, info, names)
    return result if has_dtype else TypeProto()


def _set_sizes(result: TypeProto, info: TensorStructInfo, names: DimNames) -> None:
    result.tensor_type.shape.CopyFrom(TensorShapeProto())
    for size in info.dims if isinstance(info.dims, tuple) else (None,) * (info.ndim or 0):
        dim = result.tensor_type.shape.dim.add()
        if isinstance(size, int):
            dim.dim_value = size
        elif size is not None:
            dim.dim_param = names.text(size)


def without_sizes(onnx_type: TypeProto) -> TypeProto:
    """Returns a type of a list, an optional or a map without sizes, which items need not share."""
    result = TypeProto()
    result.CopyFrom(onnx_type)
    inner = result
    while inner.WhichOneof("value") in ("sequence_type", "optional_type"):
        inner = getattr(inner, str(inner.WhichOneof("value"))).elem_type
    if inner.WhichOneof("value") == "tensor_type":
        inner.tensor_type.ClearField("shape")
    return result


def merge(types: Iterable[TypeProto]) -> TypeProto:
    """Returns the type that holds for every call of a function, axis by axis."""
    first, *others = types
    result = TypeProto()
    result.CopyFrom(first)
    for other in others:
        if other.WhichOneof("value") != result.WhichOneof("value"):
            return TypeProto()
        if result.WhichOneof("value") != "tensor_type":
            result = result if result == other else TypeProto()
        elif other.tensor_type.elem_type != result.tensor_type.elem_type:
            return TypeProto()
        else:
            _merge_sizes(result.tensor_type, other.tensor_type)
    return result


def _merge_sizes(result: TypeProto.Tensor, other: TypeProto.Tensor) -> None:
    if len(result.shape.dim) != len(other.shape.dim) or not other.HasField("shape"):
        result.ClearField("shape")
        return
    for dim, size in zip(result.shape.dim, other.shape.dim, strict=True):
        if dim != size:
            dim.Clear()


def refine(declared: TypeProto, inferred: TypeProto, keep_names: bool = False) -> TypeProto:
    """Returns the inferred type, with what only the declared one states: names and denotations."""
    if inferred.WhichOneof("value") is None:
        return declared
    result = TypeProto()
    result.CopyFrom(inferred)
    if declared.denotation:
        result.denotation = declared.denotation
    if inferred.WhichOneof("value") != "tensor_type":
        same_kind = declared.WhichOneof("value") == inferred.WhichOneof("value")
        return declared if same_kind else result
    if not inferred.tensor_type.HasField("shape") and declared.tensor_type.HasField("shape"):
        result.tensor_type.shape.CopyFrom(declared.tensor_type.shape)
        return result
    sizes, declared_sizes = result.tensor_type.shape.dim, declared.tensor_type.shape.dim
    if len(sizes) != len(declared_sizes):
        return result
    for size, declared_size in zip(sizes, declared_sizes, strict=True):
        named = keep_names and is_size_name(declared_size.dim_param)
        if size.WhichOneof("value") is None or named:
            size.CopyFrom(declared_size)
        elif declared_size.denotation:
            size.denotation = declared_size.denotation
    return result


def is_known(onnx_type: TypeProto) -> bool:
    """Returns whether a type states the dtype and every size, or is no tensor's."""
    if onnx_type.WhichOneof("value") != "tensor_type":
        return onnx_type.WhichOneof("value") is not None
    tensor = onnx_type.tensor_type
    sizes = tensor.shape.dim
    return (
        tensor.elem_type != 0
        and tensor.HasField("shape")
        and all(d.WhichOneof("value") is not None for d in sizes)
    )

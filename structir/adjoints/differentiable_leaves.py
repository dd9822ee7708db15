"""Finds the differentiable (floating-point) tensors in a value and its tuple fields."""

from __future__ import annotations

from structir.ir.code_hash import is_of_package
from structir.ir.dtype import is_float
from structir.ir.expr import Expr, Tuple, TupleGetItem
from structir.ir.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.opdef.adjoint_op import Cotangent, Emit

Path = tuple[int, ...]  # field indices, from the outermost tuple


def is_float_tensor(info: StructInfo | None) -> bool:
    """Returns whether a value is a floating-point tensor."""
    return isinstance(info, TensorStructInfo) and (info.dtype is None or is_float(info.dtype))


def may_have_gradient(info: StructInfo | None) -> bool:
    """Returns whether a value may contain floating-point tensors, as one of a StructInfo of another
    package may."""
    if isinstance(info, TupleStructInfo):
        return any(map(may_have_gradient, info.fields))
    is_opaque = isinstance(info, ObjectStructInfo | FuncStructInfo)
    is_foreign = info is not None and not is_of_package(type(info))
    return is_opaque or is_foreign or is_float_tensor(info)


def differentiable_leaves(info: StructInfo | None) -> dict[Path, StructInfo]:
    """Returns the StructInfo of each floating-point tensor in a value, by its path."""
    if isinstance(info, TupleStructInfo):
        inner = [(k, differentiable_leaves(field)) for k, field in enumerate(info.fields)]
        return {(k, *path): leaf for k, leaves in inner for path, leaf in leaves.items()}
    return {(): info} if is_float_tensor(info) and info is not None else {}


def is_differentiable(info: StructInfo) -> bool:
    """Returns whether a value consists of one or more floating-point tensors only."""
    if isinstance(info, TupleStructInfo):
        return bool(info.fields) and all(map(is_differentiable, info.fields))
    return is_float_tensor(info)


def extract_leaf(value: Expr, path: Path, emit: Emit) -> Expr:
    """Returns the tensor at a path of a value; emits the bindings of tuple fields."""
    for index in path:
        if isinstance(value, Tuple):
            value = value.fields[index]
        else:
            value = emit(TupleGetItem(value, index, value.struct_info.fields[index]))
    return value


def nest_at_path(path: Path, cotangent: Expr) -> Cotangent:
    """Returns the cotangent of a tuple value from the cotangent of its tensor at `path`."""
    nested: Cotangent = cotangent
    for index in reversed(path):
        nested = {index: nested}
    return nested

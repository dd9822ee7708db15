"""Where the real numbers of a value stand: in tensors, in fields of tuples."""

from __future__ import annotations

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

Path = tuple[int, ...]  # the fields to go through, from the outermost tuple


def is_real(info: StructInfo | None) -> bool:
    """Whether a value is a tensor of real numbers."""
    return isinstance(info, TensorStructInfo) and (info.dtype is None or is_float(info.dtype))


def carries(info: StructInfo | None) -> bool:
    """Whether a gradient may come back to a value: it holds real numbers, or may."""
    if isinstance(info, TupleStructInfo):
        return any(map(carries, info.fields))
    return isinstance(info, ObjectStructInfo | FuncStructInfo) or is_real(info)


def real_leaves(info: StructInfo | None) -> dict[Path, StructInfo]:
    """The tensors of real numbers in a value, by where they stand."""
    if isinstance(info, TupleStructInfo):
        inner = [(k, real_leaves(field)) for k, field in enumerate(info.fields)]
        return {(k, *path): leaf for k, leaves in inner for path, leaf in leaves.items()}
    return {(): info} if is_real(info) and info is not None else {}


def only_real(info: StructInfo) -> bool:
    """Whether a value is made of tensors of real numbers, and of at least one."""
    if isinstance(info, TupleStructInfo):
        return bool(info.fields) and all(map(only_real, info.fields))
    return is_real(info)


def leaf(value: Expr, path: Path, emit: Emit) -> Expr:
    """A tensor in a value, bound where it has to be."""
    for index in path:
        if isinstance(value, Tuple):
            value = value.fields[index]
        else:
            value = emit(TupleGetItem(value, index, value.struct_info.fields[index]))
    return value


def at_path(path: Path, back: Expr) -> Cotangent:
    """What comes back to a value when this comes back to one of its tensors."""
    made: Cotangent = back
    for index in reversed(path):
        made = {index: made}
    return made

"""Signature policy: which parts of a declared signature inference may change."""

from __future__ import annotations

from typing import Any

from structir.analysis.axes import axes_of, tensor
from structir.ir.axes import AnySize, Labelled, is_anonymous, size_in
from structir.ir.expr import Var
from structir.ir.polynomial import Poly
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.solver.domains.terms import symbol_of
from structir.solver.program.value_trees import tensors


def apply_policy(info: StructInfo, known: StructInfo) -> StructInfo:
    """Returns the declared StructInfo, completed only if it declares no axes."""
    if isinstance(info, TupleStructInfo) and isinstance(known, TupleStructInfo):
        parts = zip(info.fields, known.fields, strict=True)
        return TupleStructInfo(tuple([apply_policy(a, b) for a, b in parts]))
    declared = isinstance(info, TensorStructInfo) and (
        info.dims is not None or info.axes is not None
    )
    return _refine_anonymous(info, known) if declared else known


def _refine_anonymous(info: Any, known: Any) -> StructInfo:
    """Returns a declared StructInfo with inferred values of its anonymous sizes and its labels."""
    declared_axes, inferred_axes = axes_of(info), axes_of(known)
    if (
        declared_axes is None
        or inferred_axes is None
        or len(declared_axes) != len(inferred_axes)
        or isinstance(info.dims, Var)
    ):
        return info  # type: ignore[no-any-return]
    return tensor(tuple(map(_merge_axis, declared_axes, inferred_axes)), info.dtype)


def _merge_axis(declared: Any, inferred: Any) -> Any:
    size, label = size_in(declared), getattr(inferred, "label", getattr(declared, "label", None))
    symbol = symbol_of(size) if type(size) is Poly else None
    anonymous = type(size) is AnySize or (symbol is not None and is_anonymous(symbol.name))
    merged_size = size_in(inferred) if anonymous and type(size_in(inferred)) is int else size
    return merged_size if label is None else Labelled(merged_size, label)


def narrows(info: StructInfo, known: StructInfo) -> bool:
    """Returns whether inference is more precise about some size than a signature."""
    pairs = zip(tensors(info), tensors(known), strict=True)
    return any(
        (type(b.dims) is tuple and a.dims != b.dims) or (b.axes is not None and a.axes != b.axes)
        for a, b in pairs
    )

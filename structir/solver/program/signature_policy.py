"""Signature policy: which parts of a declared signature inference may change."""

from __future__ import annotations

from typing import Any

from structir.analysis.axes import axes_of, tensor
from structir.ir.axes import AnySize, Labelled, is_anonymous, size_in
from structir.ir.dims import syms
from structir.ir.expr import Var
from structir.ir.node import replace
from structir.ir.polynomial import Poly
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.solver.domains.terms import symbol_of
from structir.solver.program.value_trees import tensors


def apply_policy(declared: StructInfo, inferred: StructInfo) -> StructInfo:
    """Returns the declared StructInfo, completed only if it declares no axes."""
    if isinstance(declared, TupleStructInfo) and isinstance(inferred, TupleStructInfo):
        parts = zip(declared.fields, inferred.fields, strict=True)
        return replace(declared, fields=tuple([apply_policy(a, b) for a, b in parts]))
    has_axes = isinstance(declared, TensorStructInfo) and (
        declared.dims is not None or declared.axes is not None
    )
    return _refine_anonymous(declared, inferred) if has_axes else inferred


def _refine_anonymous(declared: Any, inferred: Any) -> StructInfo:
    """Returns a declared StructInfo with inferred values of its anonymous sizes and its labels."""
    declared_axes, inferred_axes = axes_of(declared), axes_of(inferred)
    if (
        declared_axes is None
        or inferred_axes is None
        or len(declared_axes) != len(inferred_axes)
        or isinstance(declared.dims, Var)
    ):
        return declared  # type: ignore[no-any-return]
    return tensor(
        tuple(map(_merge_axis, declared_axes, inferred_axes)), declared.element, declared.vdevice
    )


def _merge_axis(declared: Any, inferred: Any) -> Any:
    size, label = size_in(declared), getattr(inferred, "label", getattr(declared, "label", None))
    symbol = symbol_of(size) if type(size) is Poly else None
    anonymous = type(size) is AnySize or (symbol is not None and is_anonymous(symbol.name))
    merged_size = size_in(inferred) if anonymous and _is_named(size_in(inferred)) else size
    return merged_size if label is None else Labelled(merged_size, label)


def _is_named(size: Any) -> bool:
    """Returns whether a size is a number, or consists of dims that the source names."""
    names = [symbol.name for symbol in syms(size)] if type(size) is Poly else []
    return type(size) is int or (bool(names) and not any(map(is_anonymous, names)))


def narrows(declared: StructInfo, inferred: StructInfo) -> bool:
    """Returns whether inference is more precise about some size than a signature."""
    pairs = zip(tensors(declared), tensors(inferred), strict=True)
    return any(
        (type(b.dims) is tuple and a.dims != b.dims) or (b.axes is not None and a.axes != b.axes)
        for a, b in pairs
    )

"""What of a stated signature is kept, whatever a body tells of its sizes."""

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
    """A signature as it was written, completed only where it left everything open."""
    if isinstance(info, TupleStructInfo) and isinstance(known, TupleStructInfo):
        parts = zip(info.fields, known.fields, strict=True)
        return TupleStructInfo(tuple([apply_policy(a, b) for a, b in parts]))
    stated = isinstance(info, TensorStructInfo) and (info.dims is not None or info.axes is not None)
    return _refine_anonymous(info, known) if stated else known


def _refine_anonymous(info: Any, known: Any) -> StructInfo:
    """A stated signature, but with what was found of its anonymous sizes and its labels."""
    said, found = axes_of(info), axes_of(known)
    if said is None or found is None or len(said) != len(found) or isinstance(info.dims, Var):
        return info  # type: ignore[no-any-return]
    return tensor(tuple(map(_merge_axis, said, found)), info.dtype)


def _merge_axis(said: Any, found: Any) -> Any:
    size, label = size_in(said), getattr(found, "label", getattr(said, "label", None))
    symbol = symbol_of(size) if type(size) is Poly else None
    anonymous = type(size) is AnySize or (symbol is not None and is_anonymous(symbol.name))
    kept = size_in(found) if anonymous and type(size_in(found)) is int else size
    return kept if label is None else Labelled(kept, label)


def narrows(info: StructInfo, known: StructInfo) -> bool:
    """Whether more is known of some size than a signature says."""
    both = zip(tensors(info), tensors(known), strict=True)
    return any(
        (type(b.dims) is tuple and a.dims != b.dims) or (b.axes is not None and a.axes != b.axes)
        for a, b in both
    )

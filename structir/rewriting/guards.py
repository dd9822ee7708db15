"""Guards: queries on matched values, called between the two yields of a rewrite."""

from __future__ import annotations

import re
from typing import Any

from structir.ir.axes import Ragged, size_in
from structir.ir.dims import Dim, equal, floormod
from structir.ir.expr import Call, Constant, Expr, PrimValue, ShapeExpr
from structir.ir.struct_info import TensorStructInfo
from structir.rewriting.matching import UseDefGraph
from structir.rewriting.pattern_vars import PatternExpr

ACCESS = re.compile(r"\[([^]]*)\]")  # the axes of an access in an index signature
ACTIVE_GRAPHS: list[UseDefGraph] = []  # a stack: the last graph is that of the current rewrite


def used_once(value: Expr) -> bool:
    """Returns whether a value has a single use."""
    matched = _matched(value)
    return ACTIVE_GRAPHS[-1].uses(matched) == 1


def made_by(value: Expr, op: Any) -> tuple[Expr, ...] | None:
    """Returns the operands of the call of `op` that defines a value.

    None where the call has attributes, or the value has other uses.
    """
    call = call_of(value, op)
    return None if call is None or call.attrs else call.args


def call_of(value: Expr, op: Any) -> Call | None:
    """Returns the call of `op` that defines a value; None where the value has other uses."""
    matched = _matched(value)
    call = ACTIVE_GRAPHS[-1].value(matched)
    if not isinstance(call, Call) or call.op is not op.definition.op:
        return None
    return call if matched is call or ACTIVE_GRAPHS[-1].uses(matched) == 1 else None


def dims_of(value: Expr) -> tuple[Dim, ...] | None:
    """Returns the dims of a tensor or shape; None where unknown."""
    if isinstance(value, ShapeExpr):
        return value.dims
    info = _matched(value).struct_info
    dims = getattr(info, "dims", None)
    return dims if isinstance(dims, tuple) else None


def dtype_of(value: Expr) -> str | None:
    """Returns the dtype of a tensor; None where unknown."""
    info = _matched(value).struct_info
    return info.dtype if isinstance(info, TensorStructInfo) else None


def rank_of(value: Expr) -> int | None:
    """Returns the rank of a tensor; None where unknown."""
    info = _matched(value).struct_info
    return info.ndim if isinstance(info, TensorStructInfo) else None


def is_dense(value: Expr) -> bool:
    """Returns whether no axis of a tensor is ragged."""
    info = _matched(value).struct_info
    axes = info.axes if isinstance(info, TensorStructInfo) else None
    return all(type(size_in(axis)) is not Ragged for axis in axes or ())


def same_sizes(first: Any, second: Any) -> bool:
    """Returns whether two tensors or shapes provably have equal dims."""
    a, b = dims_of(first), dims_of(second)
    if a is None or b is None or len(a) != len(b):
        return False
    return all(equal(x, y) is True for x, y in zip(a, b, strict=True))


def divisible(dim: Dim, by: Dim) -> bool:
    """Returns whether a dim is provably a multiple of another dim."""
    return bool(floormod(dim, by) == 0)


def value_of(value: Any) -> Any:
    """Returns the compile-time constant value; None where unknown."""
    definition = ACTIVE_GRAPHS[-1].value(_matched(value))
    if isinstance(definition, Constant):
        return definition.data
    return definition.value if isinstance(definition, PrimValue) else None


def _matched(value: Any) -> Any:
    return value.value if isinstance(value, PatternExpr) else value


def acts_element_wise(f: Any) -> bool:
    """Returns whether a matched op is elementwise with one result, by its index signature."""
    definition = f.op.definition
    signature = getattr(definition, "index_signature", None)
    # with a StructInfo hook, the results may be no tensors
    if not isinstance(signature, str) or "struct_info" in definition.hooks:
        return False
    accesses = {access.strip() for access in ACCESS.findall(signature)}
    return accesses in ({"*s"}, {"~s"}) and signature.partition("->")[2].count("[") == 1

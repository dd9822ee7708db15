"""What a rewrite may ask of the values that it found, between its two yields."""

from __future__ import annotations

import re
from typing import Any

from structir.ir.dims import Dim, equal, floormod
from structir.ir.expr import Call, Constant, Expr, PrimValue, ShapeExpr
from structir.ir.struct_info import TensorStructInfo
from structir.rewriting.matching import UseDefGraph
from structir.rewriting.pattern_vars import PatternExpr

ROW = re.compile(r"\[([^]]*)\]")  # what stands between the brackets of a tensor in a line
ACTIVE_GRAPHS: list[UseDefGraph] = []  # the graph in which the rewrite under way has matched


def used_once(value: Expr) -> bool:
    """Whether nothing else reads a value; a call of the pattern that only the pattern reads can go
    away."""
    found = _found(value)
    return ACTIVE_GRAPHS[-1].uses(found) == 1


def made_by(value: Expr, op: Any) -> tuple[Expr, ...] | None:
    """The operands of the call of an op, without attributes, that makes a value which only the
    pattern reads; None where something else does, or makes it."""
    found = _found(value)
    call = ACTIVE_GRAPHS[-1].value(found)
    if not isinstance(call, Call) or call.op is not op.definition.op or call.attrs:
        return None
    return call.args if found is call or ACTIVE_GRAPHS[-1].uses(found) == 1 else None


def dims_of(value: Expr) -> tuple[Dim, ...] | None:
    """The sizes of a tensor, or those that a shape states; None where they are unknown."""
    if isinstance(value, ShapeExpr):
        return value.dims
    info = _found(value).struct_info
    dims = getattr(info, "dims", None)
    return dims if isinstance(dims, tuple) else None


def dtype_of(value: Expr) -> str | None:
    """The dtype of a tensor; None where it is unknown."""
    info = _found(value).struct_info
    return info.dtype if isinstance(info, TensorStructInfo) else None


def rank_of(value: Expr) -> int | None:
    """How many axes a tensor has; None where it is unknown."""
    info = _found(value).struct_info
    return info.ndim if isinstance(info, TensorStructInfo) else None


def same_sizes(first: Any, second: Any) -> bool:
    """Whether two values or shapes provably have the same sizes."""
    a, b = dims_of(first), dims_of(second)
    if a is None or b is None or len(a) != len(b):
        return False
    return all(equal(x, y) is True for x, y in zip(a, b, strict=True))


def divisible(dim: Dim, by: Dim) -> bool:
    """Whether a size provably is a multiple of another one, whatever its variables are."""
    return bool(floormod(dim, by) == 0)


def value_of(value: Any) -> Any:
    """The array or the number that a value is known to be when compiling; None if it is not."""
    known = ACTIVE_GRAPHS[-1].value(_found(value))
    if isinstance(known, Constant):
        return known.data
    return known.value if isinstance(known, PrimValue) else None


def _found(value: Any) -> Any:
    return value.value if isinstance(value, PatternExpr) else value


def acts_element_wise(f: Any) -> bool:
    """Whether an op, found for a hole, makes each element of its one result from the elements at
    the same place: its line says so."""
    definition = f.op.definition
    line = getattr(definition, "line", None)
    if not isinstance(line, str) or "struct_info" in definition.hooks:  # which may be no tensor's
        return False
    rows = {row.strip() for row in ROW.findall(line)}
    return rows in ({"*s"}, {"~s"}) and line.partition("->")[2].count("[") == 1

"""Facts that a program states of its sizes: conditions that are 1 in every run.

`R.require("n % 4 == 0")` is the `match_cast` of a shape that holds the condition to a shape of
ones, so whatever substitutes, erases or checks sizes does the same to conditions.
"""

from __future__ import annotations

from structir.errors import Span
from structir.ir.dim_choice import COMPARISONS, compare
from structir.ir.dims import Dim, Opaque, as_atom, syms
from structir.ir.expr import Binding, MatchCast, ShapeExpr
from structir.ir.polynomial import opaque
from structir.ir.struct_info import ShapeStructInfo


def condition(op: str, first: Dim, second: Dim) -> Dim:
    """A comparison of sizes as a condition; one that always holds stays as it was written."""
    found = compare(op, first, second)
    if found != 1 or not syms(first) | syms(second):
        return found
    fn, swapped = COMPARISONS[op]
    return opaque(fn, (second, first) if swapped else (first, second), (0, 1))


def cast_of(conditions: tuple[Dim, ...], span: Span | None) -> tuple[ShapeExpr, ShapeStructInfo]:
    """Returns the value and the StructInfo of the match_cast that checks conditions."""
    ones: tuple[Dim, ...] = (1,) * len(conditions)
    return ShapeExpr(conditions, span=span), ShapeStructInfo(ones)


def conditions_of(binding: Binding) -> tuple[Dim, ...]:
    """The conditions that a binding states; none where it is another one."""
    if not isinstance(binding, MatchCast) or not isinstance(binding.value, ShapeExpr):
        return ()
    info, dims = binding.struct_info, binding.value.dims
    ones = isinstance(info, ShapeStructInfo) and info.dims == (1,) * len(dims)
    return tuple(dims) if ones and all(map(_is_condition, dims)) else ()


def _is_condition(dim: Dim) -> bool:
    atom = as_atom(dim)
    return type(atom) is Opaque and atom.fn in COMPARISONS

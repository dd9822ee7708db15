"""Conditions on sizes that a program requires to hold in every run.

`R.require("n % 4 == 0")` is a `match_cast` of a shape of conditions to a shape of ones. Passes that
substitute, erase or check sizes therefore treat conditions without a special case.
"""

from __future__ import annotations

from structir.errors import Span
from structir.ir.dim_choice import COMPARISONS, compare
from structir.ir.dim_text import MIRRORED, SYMBOLS, text
from structir.ir.dims import Dim, Opaque, as_atom, syms
from structir.ir.expr import Binding, MatchCast, ShapeExpr
from structir.ir.polynomial import opaque
from structir.ir.struct_info import ShapeStructInfo


def condition(op: str, first: Dim, second: Dim) -> Dim:
    """Returns a comparison as a condition; a tautology is not folded to 1."""
    result = compare(op, first, second)
    if result != 1 or not syms(first) | syms(second):
        return result
    fn, swapped = COMPARISONS[op]
    return opaque(fn, (second, first) if swapped else (first, second), (0, 1))


def cast_of(conditions: tuple[Dim, ...], span: Span | None) -> tuple[ShapeExpr, ShapeStructInfo]:
    """Returns the value and the StructInfo of the match_cast that checks conditions."""
    ones: tuple[Dim, ...] = (1,) * len(conditions)
    return ShapeExpr(conditions, span=span), ShapeStructInfo(ones)


def conditions_of(binding: Binding) -> tuple[Dim, ...]:
    """Returns the conditions that a binding requires; empty for other bindings."""
    if not isinstance(binding, MatchCast) or not isinstance(binding.value, ShapeExpr):
        return ()
    info, dims = binding.struct_info, binding.value.dims
    ones = isinstance(info, ShapeStructInfo) and info.dims == (1,) * len(dims)
    return tuple(dims) if ones and all(map(is_condition, dims)) else ()


def condition_text(binding: Binding, condition: Dim) -> str:
    """Returns a condition as program text, with the operands in the order of the source: of
    `R.require("m >= n")`, whose normal form is `n <= m`, it is `m >= n`."""
    atom = as_atom(condition)
    plain = text(condition)
    if type(atom) is not Opaque or atom.fn not in ("lt", "le") or binding.span is None:
        return plain
    span = binding.span
    source = "".join(map(span.source.line, range(span.line, span.end_line + 1)))
    first, second = map(text, atom.args)
    mirrored = f"{second} {MIRRORED[SYMBOLS[atom.fn]]} {first}"
    return mirrored if _joined(mirrored) in _joined(source) else plain


def _joined(source: str) -> str:
    return "".join(source.split())


def is_condition(dim: Dim) -> bool:
    """Returns whether a size is a comparison of sizes, 0 or 1."""
    atom = as_atom(dim)
    return type(atom) is Opaque and atom.fn in COMPARISONS

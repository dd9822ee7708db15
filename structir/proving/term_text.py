"""The text of terms and equations in messages."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from structir.ir.dims import Dim, Sym
from structir.ir.dims import text as dim_text
from structir.proving.kernel import Loops
from structir.proving.terms import (
    ApplyTerm,
    ElementTerm,
    Fold,
    LiteralTerm,
    NonNegative,
    NormalForm,
    ScalarTerm,
    SizeTerm,
    TableTerm,
    Unknown,
)

INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "eq": "=="}
LONG = 400  # characters of one side


def equation_text(left: ScalarTerm, right: ScalarTerm, loops: Loops = ()) -> str:
    """Returns an equation, with the ranges of its index variables."""
    ranges = ", ".join([f"{v.name} < {dim_text(extent)}" for v, extent in loops])
    sides = f"{shortened(left)} = {shortened(right)}"
    return f"{sides} for {ranges}" if ranges else sides


def shortened(term: Any) -> str:
    """Returns the text of a term, without its middle if it is long."""
    text = term_text(term)
    return text if len(text) <= LONG else f"{text[: LONG // 2]} ... {text[-LONG // 4 :]}"


def term_text(term: Any) -> str:
    """Returns the text of a term."""
    match term:
        case LiteralTerm(value):
            return _number(value)
        case SizeTerm(dim):
            return dim_text(dim)
        case NonNegative(dim):
            return f"[{dim_text(dim)} >= 0]"
        case ElementTerm(source, index):
            return f"{_source(source)}[{_index(index)}]"
        case ApplyTerm(fn, args):
            parts = [term_text(a) for a in args]
            if fn in INFIX and len(parts) == 2:
                return f"({parts[0]} {INFIX[fn]} {parts[1]})"
            target = f", {term.dtype}" if fn == "cast" else ""
            return f"{fn}({', '.join(parts)}{target})"
        case Fold(monoid, loops, body):
            return f"{monoid}({term_text(body)} for {_ranges(loops)})"
        case Unknown(op, _, args, _, index):
            parts = [term_text(a) for a in args if isinstance(a, ScalarTerm)]
            return f"{op}({', '.join(parts)})[{_index(index)}]"
        case TableTerm(loops, body):
            names = ", ".join([v.name for v, _ in loops])
            return f"[{names}: {term_text(body)}]"
        case NormalForm(terms):
            return _sum(terms)
    return str(term)


def _sum(terms: Any) -> str:
    parts = []
    for atoms, factor in terms:
        names = [term_text(a) for a in atoms]
        if factor != 1 or not names:
            names = [_number(factor), *names]
        parts.append(" * ".join(names))
    return f"({' + '.join(parts)})" if len(parts) > 1 else parts[0] if parts else "0"


def _number(value: Any) -> str:
    if isinstance(value, Fraction):
        return str(value) if value.denominator < 10**6 else repr(float(value))
    return repr(value)


def _source(source: Any) -> str:
    if isinstance(source, tuple) and source[:1] == ("parameter",):
        if isinstance(source[1], int):  # of a local function
            return f"argument{'_'.join(map(str, source[1:]))}"
        return ".".join(map(str, source[1:]))
    return str(source[0] if isinstance(source, tuple) else source)


def _index(index: tuple[Dim, ...]) -> str:
    return ", ".join(map(dim_text, index))


def _ranges(loops: tuple[tuple[Sym, Dim], ...]) -> str:
    return ", ".join([f"{v.name} < {dim_text(extent)}" for v, extent in loops])

"""Scalar expressions of index specs as terms, in the dtypes in which they are evaluated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.dtype import is_float
from structir.projections.scalar_expr import (
    FUNCTIONS,
    LoopIndex,
    OperandElement,
    ScalarExpr,
    ScalarExtent,
    ScalarLiteral,
    ScalarOp,
)
from structir.projections.values import (
    LITERAL_KINDS,
    RULES,
    SETTLED,
    WEAK_INT,
    computing_dtype,
    promote_dtypes,
)
from structir.proving.terms import ApplyTerm, LiteralTerm, ScalarTerm, SizeTerm
from structir.proving.values import number

Typed = tuple[ScalarTerm, str]  # a term, and its dtype or a weak kind


@attrs.frozen(eq=False)
class ScalarTerms:
    """The terms of scalar expressions: elements by read, and values of index variables and sizes.

    In exact mode narrow floats are computed in float32, as the interpreter does.
    """

    reads: Mapping[str, ScalarTerm]
    dim: Callable[[Dim], Dim]  # from dims of the spec to dims of the program
    exact: bool = False

    def typed(self, expr: ScalarExpr) -> Typed:
        """Returns the term of an expression and its dtype."""
        match expr:
            case OperandElement(name):
                term = self.reads[name]
                wide = computing_dtype(term.dtype) if self.exact else term.dtype
                return converted(term, wide), wide
            case ScalarLiteral(value):
                kind = LITERAL_KINDS[type(value)]
                return number(value, SETTLED.get(kind, kind)), kind
            case LoopIndex(index_var):
                return SizeTerm(self.dim(dims.as_dim(index_var)), "int64"), WEAK_INT
            case ScalarExtent(dim):
                return SizeTerm(self.dim(dim), "int64"), WEAK_INT
            case ScalarOp():
                return self._function(expr)
        raise TypeError(f"expected a scalar expression, found {type(expr).__name__}")

    def _function(self, expr: ScalarOp) -> Typed:
        args = [self.typed(a) for a in expr.args]
        kinds = [kind for _, kind in args]
        rule = FUNCTIONS[expr.fn].rule
        kind = RULES[rule](kinds, expr.dtype)
        if self.exact and kind not in SETTLED:
            kind = computing_dtype(kind)
        dtype = SETTLED.get(kind, kind)
        if rule == "cast":
            term = ApplyTerm("cast", (args[0][0],), expr.dtype or dtype)
            return (converted(term, dtype) if self.exact else term), kind
        common = promote_dtypes(kinds) if rule == "compare" else kind
        common = SETTLED.get(common, common)
        terms = [term for term, _ in args]
        if rule in ("same", "float", "quotient") or (rule == "compare" and is_float(common)):
            terms = [converted(t, common, k in SETTLED) for t, k in args]
        elif rule == "compare":
            terms = [converted(t, common, True) if k in SETTLED else t for t, k in args]
        elif rule == "select":
            terms = [terms[0], *[converted(t, dtype, k in SETTLED) for t, k in args[1:]]]
        fn = "div" if expr.fn == "quotient" and is_float(dtype) else expr.fn
        return ApplyTerm(fn, tuple(terms), dtype), kind


def converted(term: ScalarTerm, dtype: str, weak: bool = False) -> ScalarTerm:
    """Returns a term in another dtype; weak terms are computed in it."""
    if term.dtype == dtype:
        return term
    if weak:
        if isinstance(term, LiteralTerm):
            return number(term.value, dtype)
        if isinstance(term, SizeTerm):
            return SizeTerm(term.dim, dtype)
        if (
            isinstance(term, ApplyTerm)
            and term.fn not in ("cast", "select")
            and term.dtype != "bool"
        ):
            args: list[Any] = [converted(a, dtype, True) for a in term.args]
            return ApplyTerm(term.fn, tuple(args), dtype)
    return ApplyTerm("cast", (term,), dtype)

"""Decides whether a call is a ring operation: made of sums, differences and products.

Such a call is a polynomial in the elements of its float operands, so that it can be evaluated in
any ring. Copies, such as reshapes, are ring operations; so are casts between floats, which exact
numbers need not round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from structir.ir.dtype import is_float
from structir.ir.expr import Call
from structir.opdef.memo import spec_of
from structir.projections.scalar_expr import (
    LoopIndex,
    OperandElement,
    ScalarExpr,
    ScalarExtent,
    ScalarLiteral,
    ScalarOp,
    walk,
)
from structir.projections.spec import IndexSpec, Statement

SUMS = (None, "sum")  # the monoids of ring operations


@attrs.frozen
class Growth:
    """How a value grows with its operands: its degree, and a bound of its absolute value."""

    degree: int
    bound: int


Rule = Callable[..., Growth]

RULES: Mapping[str, Rule] = {
    "add": lambda a, b: Growth(max(a.degree, b.degree), a.bound + b.bound),
    "sub": lambda a, b: Growth(max(a.degree, b.degree), a.bound + b.bound),
    "neg": lambda a: a,
    "mul": lambda a, b: Growth(a.degree + b.degree, a.bound * b.bound),
    "cast": lambda a: a,
    "select": lambda _, a, b: Growth(max(a.degree, b.degree), max(a.bound, b.bound)),
}


def ring_spec(call: Call) -> IndexSpec | None:
    """Returns the index spec of a ring operation with float results; None for other calls."""
    spec = _polynomial_spec(call)
    return spec if spec and all(_is_float(result.dtype) for result in spec.results) else None


def is_polynomial(call: Call) -> bool:
    """Whether a call is a ring operation on floats or integers."""
    return _polynomial_spec(call) is not None


def _polynomial_spec(call: Call) -> IndexSpec | None:
    spec = spec_of(call)
    if spec is None:
        return None
    is_ring = spec.computes and _is_integral(spec.fill) and spec.base is None
    return spec if is_ring and all(_is_ring(spec, each) for each in spec.statements) else None


def growth(spec: IndexSpec, statement: Statement, operands: Mapping[int, Growth]) -> Growth:
    """Returns the growth of the values of a statement, before its reduction; `operands` has that of
    each operand of the spec by position."""
    elements = {read.name: operands[read.operand] for read in statement.reads}
    values = [_growth(write.value, elements) for write in statement.writes]
    return Growth(max(v.degree for v in values), max(v.bound for v in values))


def _growth(value: Any, elements: Mapping[str, Growth]) -> Growth:
    if isinstance(value, OperandElement):
        return elements[value.name]
    if isinstance(value, ScalarLiteral):
        return Growth(0, abs(int(value.value)))
    if isinstance(value, ScalarOp):
        args = value.args
        if value.fn == "select":
            return RULES["select"](None, *[_growth(arg, elements) for arg in args[1:]])
        return RULES[value.fn](*[_growth(arg, elements) for arg in args])
    return Growth(0, 1 << 31)  # a size or a loop index


def _is_ring(spec: IndexSpec, statement: Statement) -> bool:
    """Whether the values are polynomials, and the indices do not depend on floats."""
    floats = {r.name for r in statement.reads if _may_be_float(spec.operands[r.operand].dtype)}
    if statement.monoid not in SUMS:
        return False
    accesses = [e for read in statement.reads for e in read.entries]
    accesses += [e for write in statement.writes for e in write.entries]
    if any(_reads(entry.data, floats) for entry in accesses):
        return False
    return all(_is_polynomial(write.value, floats) for write in statement.writes)


def _is_polynomial(value: Any, floats: set[str]) -> bool:
    if isinstance(value, ScalarLiteral):
        return _is_integral(value.value)
    if isinstance(value, OperandElement | ScalarExtent | LoopIndex):
        return True
    if value.fn not in RULES or (value.dtype is not None and not is_float(value.dtype)):
        return False
    args = value.args
    if value.fn == "select":
        if _reads(args[0], floats):
            return False
        args = args[1:]
    return all(_is_polynomial(arg, floats) for arg in args)


def _reads(value: ScalarExpr | None, names: set[str]) -> bool:
    """Whether a scalar expression depends on some of the reads."""
    nodes = () if value is None else walk(value)
    return any(isinstance(node, OperandElement) and node.name in names for node in nodes)


def _is_integral(value: Any) -> bool:
    return bool(abs(value) < 1 << 31 and int(value) == value)


def _is_float(dtype: Any) -> bool:
    return isinstance(dtype, str) and is_float(dtype)


def _may_be_float(dtype: Any) -> bool:
    return not isinstance(dtype, str) or is_float(dtype)

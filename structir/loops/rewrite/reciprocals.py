"""Replaces divisions by a loop-invariant value by products with its reciprocal."""

from __future__ import annotations

from collections.abc import Callable

from structir.ir.dtype import is_float
from structir.ir.kernel_functions import rounds_to_integers
from structir.loops.program.expression import Expression, Operation, apply, number


def with_reciprocals(
    root: Expression, is_wanted: Callable[[Expression, Expression], bool]
) -> Expression:
    """Returns an expression in which divisions are products with reciprocals, where this is wanted
    for the dividend and the divisor. A quotient that is rounded to an integer remains: its last bit
    may change the integer."""
    results: dict[tuple[Expression, bool], Expression] = {}

    def visit(node: Expression, is_rounded: bool = False) -> Expression:
        if not isinstance(node, Operation):
            return node
        if (node, is_rounded) not in results:
            rounds = rounds_to_integers(node.fn, node.dtype)
            args = tuple([visit(a, rounds) for a in node.args])
            new = apply(node.fn, args, node.dtype, node.exact)
            results[node, is_rounded] = new if is_rounded else product(new)
        return results[node, is_rounded]

    def product(node: Operation) -> Expression:
        is_division = node.fn == "div" and is_float(node.dtype) and not node.exact
        if not is_division or not is_wanted(*node.args):
            return node
        over, under = node.args
        reciprocal = apply("div", (number(1.0, node.dtype), under), node.dtype)
        return apply("mul", (over, reciprocal), node.dtype)

    return visit(root)

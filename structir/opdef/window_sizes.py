"""Sizes of axes that are indexed by a sum of loop indices, `2 * i + k`, and have no stated size."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import reduce


def window_overlap(
    tree: ast.expr, attributes: Collection[str], operands: Collection[str]
) -> ast.expr | None:
    """Returns the difference between a sum over extents and the size of the axis.

    The greatest index of `s * i + k` plus one is the sum over extents less `s + 1 - 1`. Returns
    None for the index of one loop, and for other expressions than sums.
    """
    factors = [_factor(term, attributes, operands) for term in _terms(tree)]
    of_loops = [factor for factor in factors if not _is_zero(factor)]
    if len(of_loops) < 2 or None in factors:
        return None
    total = reduce(lambda a, b: ast.BinOp(a, ast.Add(), b), [f for f in of_loops if f is not None])
    return ast.BinOp(total, ast.Sub(), ast.Constant(1))


def _terms(tree: ast.expr) -> Iterator[ast.expr]:
    """Yields the terms of a sum; a number that is subtracted is one."""
    match tree:
        case ast.BinOp(left=lhs, op=ast.Add(), right=rhs):
            yield from _terms(lhs)
            yield from _terms(rhs)
        case ast.BinOp(left=lhs, op=ast.Sub(), right=ast.Constant() as rhs):
            yield from _terms(lhs)
            yield rhs
        case _:
            yield tree


def _factor(
    term: ast.expr, attributes: Collection[str], operands: Collection[str]
) -> ast.expr | None:
    """Returns the factor of the loop index in a term, 0 for a number or an attribute, and None for
    another term."""
    match term:
        case ast.Constant(value=int()):
            return ast.Constant(0)
        case ast.Subscript(value=ast.Name(id=name)) if name in attributes:
            return ast.Constant(0)
        case ast.Name(id=name) if name not in operands:
            return ast.Constant(int(name not in attributes))
        case ast.BinOp(left=lhs, op=ast.Mult(), right=rhs):
            first, second = (_factor(side, attributes, operands) for side in (lhs, rhs))
            if _is_zero(first) and _is_one(second):
                return lhs
            if _is_one(first) and _is_zero(second):
                return rhs
    return None


def _is_zero(factor: ast.expr | None) -> bool:
    return isinstance(factor, ast.Constant) and factor.value == 0


def _is_one(factor: ast.expr | None) -> bool:
    return isinstance(factor, ast.Constant) and factor.value == 1

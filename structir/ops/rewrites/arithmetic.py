"""Arithmetic rewrites that are exact for all numbers, including rounding and NaN."""

from __future__ import annotations

from collections.abc import Iterator

from structir.ir.expr import Expr
from structir.ops.broadcast import add, divide, multiply, power, subtract
from structir.ops.elementwise import abs_, logical_not, negative
from structir.rewriting.guards import dtype_of
from structir.rewriting.rule import rewrite


@rewrite(group="simplify")
def drop_added_zero(x: Expr) -> Iterator[Expr]:
    """Rewrites x + 0 to x."""
    yield add(x, 0)
    yield x


@rewrite(group="simplify")
def drop_zero_added_to(x: Expr) -> Iterator[Expr]:
    """Rewrites 0 + x to x."""
    yield add(0, x)
    yield x


@rewrite(group="simplify")
def drop_taken_zero(x: Expr) -> Iterator[Expr]:
    """Rewrites x - 0 to x."""
    yield subtract(x, 0)
    yield x


@rewrite(group="simplify")
def drop_factor_one(x: Expr) -> Iterator[Expr]:
    """Rewrites x * 1 to x."""
    yield multiply(x, 1)
    yield x


@rewrite(group="simplify")
def drop_one_times(x: Expr) -> Iterator[Expr]:
    """Rewrites 1 * x to x."""
    yield multiply(1, x)
    yield x


@rewrite(group="simplify")
def drop_divisor_one(x: Expr) -> Iterator[Expr]:
    """Rewrites x / 1 to x."""
    yield divide(x, 1)
    yield x


@rewrite(group="simplify")
def drop_power_one(x: Expr) -> Iterator[Expr]:
    """Rewrites power(x, 1) to x."""
    yield power(x, 1)
    yield x


@rewrite(group="simplify", tolerance=1e-6)
def square(x: Expr) -> Iterator[Expr]:
    """Rewrites power(x, 2) to x * x."""
    yield power(x, 2)
    yield multiply(x, x)


@rewrite(group="simplify")
def cancel_negations(x: Expr) -> Iterator[Expr]:
    """Rewrites -(-x) to x."""
    yield negative(negative(x))
    yield x


@rewrite(group="simplify")
def cancel_logical_nots(x: Expr) -> Iterator[Expr]:
    """Rewrites not(not(x)) to x."""
    yield logical_not(logical_not(x))
    if dtype_of(x) == "bool":
        yield x


@rewrite(group="simplify")
def merge_absolutes(x: Expr) -> Iterator[Expr]:
    """Rewrites abs(abs(x)) to abs(x)."""
    once = abs_(x)
    yield abs_(once)
    yield once


@rewrite(group="simplify")
def add_negative(x: Expr, y: Expr) -> Iterator[Expr]:
    """Rewrites x + (-y) to x - y."""
    yield add(x, negative(y))
    if dtype_of(x) != "bool":  # of booleans, a sum is `or`, and a difference is `xor`
        yield subtract(x, y)


@rewrite(group="simplify")
def subtract_negative(x: Expr, y: Expr) -> Iterator[Expr]:
    """Rewrites x - (-y) to x + y."""
    yield subtract(x, negative(y))
    if dtype_of(x) != "bool":
        yield add(x, y)

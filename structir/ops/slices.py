"""Strided slices."""

from __future__ import annotations

from structir.ir.dims import (
    Dim,
    as_sym,
    at_least,
    compare,
    dim_max,
    dim_min,
    evaluate,
    floordiv,
    linear,
    select,
    syms,
)
from structir.opdef.attributes import Axes, Ints, Sizes
from structir.opdef.call_view import CallView, ResolvedSignature, UnknownShape
from structir.opdef.define import op
from structir.opdef.examples import f32
from structir.opdef.index_vars import access_text, index_vars, where_text
from structir.projections.scalar_expr import ScalarExpr


def sliced(given: CallView) -> ResolvedSignature:
    """Returns `x[begin + step * i : n] -> y[i]` for each sliced axis."""
    rank, axes = given.rank("x"), given["axes"]
    listed = (axes,) if isinstance(axes, int) else axes
    bounds = [given["begin"], given["end"]]
    if rank is None:
        return ResolvedSignature("x[*s] -> y[*t]")
    steps = given["strides"] or (1,) * len(listed)
    cut = given.axes("axes", rank)
    known = [bound for bound in bounds if not isinstance(bound, UnknownShape)]
    if any(len(part) != len(cut) for part in (*known, steps)):
        given.reject("expected axes, begin, end and strides of equal length")
    if 0 in steps:
        given.reject("strides: expected nonzero numbers, found 0")
    if len(known) < len(bounds) or given.dims("x") is None:
        return ResolvedSignature(
            f"{access_text('x', index_vars(rank))} -> {access_text('y', ['_'] * rank)}"
        )
    sizes = given.dims("x") or ()
    own, read = index_vars(rank), index_vars(rank)
    starts, counts = [], []
    for place, (k, step) in enumerate(zip(cut, steps, strict=True)):
        begin, end = bounds[0][place], bounds[1][place]
        if not given["assume_inbound"]:
            begin, end = _clamped(begin, sizes[k], step), _clamped(end, sizes[k], step)
        starts.append(begin)
        counts.append(_count(begin, end, step, given["assume_inbound"]))
        read[k] = f"starts[{place}] + steps[{place}] * {own[k]} : n{k}"
    checks = [f"{own[k]} == counts[{place}]" for place, k in enumerate(cut)]
    attributes = {"starts": tuple(starts), "counts": tuple(counts), "steps": tuple(steps)}
    line = f"{access_text('x', read)} -> {access_text('y', own)}"
    return ResolvedSignature(line, where_text(checks), "", attributes)


def _clamped(bound: Dim, size: Dim, step: int) -> Dim:
    """Limits a bound to the axis; a negative one counts from the end."""
    low: Dim = 0 if step > 0 else -1
    high: Dim = size if step > 0 else size - 1
    if isinstance(bound, int):
        bound = bound + size if bound < 0 else bound
    elif at_least(bound, 0) is not True:
        bound = select(below_zero(bound), bound + size, bound)
    if bound == high or (bound == 0 and low == 0):
        return bound
    return dim_min(dim_max(bound, low), high)


def below_zero(size: Dim) -> Dim:
    """Compares a size with zero, with its constant moved: `n < 1` for n - 1."""
    constant = evaluate(size, dict.fromkeys(syms(size), 0)) if is_linear(size) else 0
    return compare("lt", size - constant, -constant)


def is_linear(size: Dim) -> bool:
    """Returns whether a size is a linear combination of its variables."""
    return all(linear(size, symbol) is not None for symbol in syms(size))


def _count(begin: Dim, end: Dim, step: int, inbound: bool) -> Dim:
    if step == 1:
        count = end - begin
    else:
        count = floordiv(end - begin + step + (-1 if step > 0 else 1), step)
    if inbound or (as_sym(count) is not None):
        return count
    return dim_max(count, 0)


@op(sliced, reads_sizes=True)
def strided_slice(
    x: ScalarExpr,
    axes: Axes,
    begin: Sizes,
    end: Sizes,
    strides: Ints | None = None,
    assume_inbound: bool = False,
) -> ScalarExpr:
    """The elements from `begin` up to `end` along some axes, by steps; bounds count from either
    end."""
    return x


strided_slice.example(f32[7, 4], [0, 1], [1, -1], [7, -5], [2, -1])

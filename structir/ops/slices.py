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


def strided_slice_signature(call: CallView) -> ResolvedSignature:
    """Returns `x[begin + step * i : n] -> y[i]` for each sliced axis."""
    rank, axes = call.rank("x"), call["axes"]
    listed = (axes,) if isinstance(axes, int) else axes
    bounds = [call["begin"], call["end"]]
    if rank is None:
        return ResolvedSignature("x[*s] -> y[*t]")
    steps = call["strides"] or (1,) * len(listed)
    cut = call.axes("axes", rank)
    known_bounds = [bound for bound in bounds if not isinstance(bound, UnknownShape)]
    if any(len(sizes_per_axis) != len(cut) for sizes_per_axis in (*known_bounds, steps)):
        lengths = [len(cut), *[len(bound) for bound in known_bounds], len(steps)]
        each_length = ", ".join(map(str, lengths))
        zeros = f"({', '.join(['0'] * len(cut))}{',' * (len(cut) == 1)})"
        hint = f"write one number per axis: `begin={zeros}`"
        message = "expected axes, begin, end and strides of equal length"
        call.reject(f"{message}, found {each_length}", hint)
    if 0 in steps:
        call.reject("strides: expected nonzero numbers, found 0")
    if len(known_bounds) < len(bounds) or call.dims("x") is None:
        remaining = ["_" if k in cut else i for k, i in enumerate(index_vars(rank))]
        return ResolvedSignature(
            f"{access_text('x', index_vars(rank))} -> {access_text('y', remaining)}"
        )
    sizes = call.dims("x") or ()
    variables, in_indices = index_vars(rank), index_vars(rank)
    starts, counts = [], []
    for position, (k, step) in enumerate(zip(cut, steps, strict=True)):
        begin, end = bounds[0][position], bounds[1][position]
        start, count = _range(begin, end, sizes[k], step, call["assume_inbound"])
        starts.append(start)
        counts.append(count)
        in_indices[k] = f"starts[{position}] + steps[{position}] * {variables[k]} : n{k}"
    checks = [f"{variables[k]} == counts[{position}]" for position, k in enumerate(cut)]
    attributes = {"starts": tuple(starts), "counts": tuple(counts), "steps": tuple(steps)}
    signature = f"{access_text('x', in_indices)} -> {access_text('y', variables)}"
    return ResolvedSignature(signature, where_text(checks), "", attributes)


def _range(begin: Dim, end: Dim, size: Dim, step: int, inbound: bool) -> tuple[Dim, Dim]:
    """Returns the first index and the number of elements of a slice."""
    if inbound:
        return begin, _count(begin, end, step, inbound)
    begin, end = _from_front(begin, size), _from_front(end, size)
    start = _clamp(begin, size, step)
    if step > 0 and at_least(begin, 0) is True and at_least(size, end) is True:
        # a begin beyond the axis, or a negative end, gives a count below 1, as its clamped form
        return start, _count(begin, end, step, inbound)
    return start, _count(start, _clamp(end, size, step), step, inbound)


def _from_front(bound: Dim, size: Dim) -> Dim:
    """Returns a bound that counts from the front; a negative one counts from the end."""
    if isinstance(bound, int):
        return bound + size if bound < 0 else bound
    if at_least(bound, 0) is True:
        return bound
    return select(below_zero(bound), bound + size, bound)


def _clamp(bound: Dim, size: Dim, step: int) -> Dim:
    """Clamps a bound from the front to the axis."""
    low: Dim = 0 if step > 0 else -1
    high: Dim = size if step > 0 else size - 1
    if bound == high or (bound == 0 and low == 0):
        return bound
    raised = bound if at_least(bound, low) is True else dim_max(bound, low)
    return raised if at_least(high, bound) is True else dim_min(raised, high)


def below_zero(size: Dim) -> Dim:
    """Builds the condition that a size is negative, with its constant moved: `n < 1` for n - 1."""
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


@op(strided_slice_signature, reads_sizes=True)
def strided_slice(
    x: ScalarExpr,
    axes: Axes,
    begin: Sizes,
    end: Sizes,
    strides: Ints | None = None,
    assume_inbound: bool = False,
) -> ScalarExpr:
    """Slices axes from `begin` up to but excluding `end`, by `strides`.

    Negative bounds count from the end. `assume_inbound` skips the clamping of bounds.
    """
    return x


strided_slice.example(f32[7, 4], [0, 1], [1, -1], [7, -5], [2, -1])

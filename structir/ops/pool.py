"""Pooling over windows of one, two and three axes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce
from operator import truediv
from typing import Any

import attrs

from structir.opdef.attributes import Ints, Layout
from structir.opdef.call_view import CallView, ResolvedSignature
from structir.opdef.define import op
from structir.opdef.examples import f32
from structir.opdef.index_exprs import LoopIndices
from structir.opdef.index_vars import access_text, where_text
from structir.opdef.layouts import SPATIAL, check_rank, each, in_layout, padding
from structir.ops.conv import FITS, window
from structir.projections import scalar_expr
from structir.projections.scalar_expr import LoopIndex, ScalarExpr

POOLED = "(H{k} + lo[{k}] + hi[{k}] - d[{k}]*(p{k} - 1) - 1 + up[{k}])//s[{k}] + 1"
BEGINNING = "(H{k} + lo[{k}] + up[{k}])//s[{k}]"  # windows that begin before the far padding


@attrs.frozen
class PoolWindows:
    """Index expressions, conditions and numbers of a pool's windows."""

    read: list[str]
    made: list[str]
    checks: str
    numbers: dict[str, Any]


def windows_of(given: CallView, count: int, name: str) -> PoolWindows:
    """Returns the windows of a pool, from its attributes."""
    axes = range(count)
    low, high = padding(given, count)
    strides, dilation = each(given, "strides", count), each(given, "dilation", count)
    if min(*strides, *dilation, *each(given, "pool_size", count)) < 1:
        given.reject("expected positive pool_size, strides and dilation")
    up = tuple([s - 1 if given["ceil_mode"] else 0 for s in strides])
    numbers: dict[str, Any] = {
        "s": strides,
        "d": dilation,
        "lo": tuple(low),
        "hi": tuple(high),
        "up": up,
    }
    numbers["pool_size"] = each(given, "pool_size", count)
    layout = given["layout"] or "NC" + SPATIAL[count]
    check_rank(given, name, layout)
    read = _entries(count, [window(k) for k in axes])
    made = _entries(count, [f"h{k}" for k in axes])
    sizes = [f"p{k} == pool_size[{k}]" for k in axes]
    counts = [f"h{k} == {_window_count(numbers, k)}" for k in axes]
    return PoolWindows(
        in_layout(given, layout, read),
        in_layout(given, given["out_layout"] or layout, made),
        where_text(sizes, counts, [FITS.format(k=k) for k in axes]),
        numbers,
    )


def _window_count(numbers: dict[str, Any], k: int) -> str:
    """Returns the number of windows; with ceil mode, each starts before the far padding."""
    step, size, after = numbers["s"][k], numbers["pool_size"][k], numbers["hi"][k]
    extent = numbers["d"][k] * (size - 1) + 1
    all_begin_before = not numbers["up"][k] or extent - after >= step
    count = POOLED if all_begin_before else f"min({POOLED}, {BEGINNING})"
    return count.format(k=k)


def pooled(given: CallView) -> ResolvedSignature:
    """Returns the signature with reads at `stride * h + dilation * p - padding`.

    With `ceil_mode` the last windows may be partial, but each starts within the input or the
    padding before it.
    """
    found = windows_of(given, int(given.op[-2]), "x")
    line = f"{access_text('x', found.read)} -> {access_text('out', found.made)}"
    return ResolvedSignature(line, found.checks, "", found.numbers)


def averaged(given: CallView) -> ResolvedSignature:
    """Returns the signature of a mean; `count_include_pad` counts padding, but nothing beyond."""
    made = pooled(given)
    monoid = "sum" if given["count_include_pad"] else "mean"
    return attrs.evolve(made, attributes={**made.attributes, "monoid": monoid})


def _mean_with_padding(x: ScalarExpr, letters: LoopIndices) -> ScalarExpr:
    """Computes an element's share in a mean that counts padding, but nothing beyond."""
    numbers = letters.attributes
    counts = [_elements(letters, k) if up else numbers["pool_size"][k] for k, up in _ups(letters)]
    whole = math.prod([n for n in counts if isinstance(n, int)])
    partial = [n for n in counts if isinstance(n, ScalarExpr)]
    return reduce(truediv, [scalar_expr.cast(n, "float32") for n in partial], x / whole)


def _ups(letters: LoopIndices) -> Iterable[tuple[int, int]]:
    return enumerate(letters.attributes["up"])


def _elements(letters: LoopIndices, k: int) -> ScalarExpr:
    """Returns the number of elements of a window within the axis and its padding."""
    numbers = letters.attributes
    size, step, dilation = (numbers[name][k] for name in ("pool_size", "s", "d"))
    extent = letters.extents[f"H{k}"] + numbers["lo"][k] + numbers["hi"][k]
    remaining = extent - LoopIndex(letters.symbol(f"h{k}")) * step
    return scalar_expr.min((remaining + dilation - 1) // dilation, size)


def _entries(count: int, spatial: list[str]) -> dict[str, str]:
    return {"N": "n", "C": "c", **dict(zip(SPATIAL[count], spatial, strict=True))}


def adapted(given: CallView) -> ResolvedSignature:
    """Returns the signature of adaptive windows: equal segments of the axis."""
    count = int(given.op[-2])
    layout = given["layout"] or "NC" + SPATIAL[count]
    check_rank(given, "x", layout)
    axes = range(count)
    wanted = given["output_size"]
    sizes = None if wanted is None else each(given, "output_size", count)
    read = in_layout(given, layout, _entries(count, [f"y{k}" for k in axes]))
    made = in_layout(given, given["out_layout"] or layout, _entries(count, [f"h{k}" for k in axes]))
    checks = [f"h{k} == y{k}" if sizes is None else f"h{k} == wanted[{k}]" for k in axes]
    inside = [_alone(k) if sizes is None else _stretch(k) for k in axes]
    line = f"{access_text('x', read)} -> {access_text('out', made)}"
    return ResolvedSignature(
        line, where_text(checks), " and ".join(inside), {"wanted": sizes or ()}
    )


def _stretch(k: int) -> str:
    return (
        f"h{k}*size(y{k})//size(h{k}) <= y{k} and "
        f"y{k} < ((h{k} + 1)*size(y{k}) + size(h{k}) - 1)//size(h{k})"
    )


def _alone(k: int) -> str:
    """Returns whether results and positions have equal size, also 0."""
    return f"h{k} <= y{k} and y{k} <= h{k}"


def _pools(count: int) -> None:
    """Declares the pools over a number of spatial axes."""

    @op(pooled, name=f"nn.max_pool{count}d", reduce="max")
    def max_pool(
        x: ScalarExpr,
        pool_size: Ints = (1,),
        strides: Ints = (1,),
        padding: Ints = (0,),
        dilation: Ints = (1,),
        ceil_mode: bool = False,
        count_include_pad: bool = False,
        layout: Layout | None = None,
        out_layout: Layout | None = None,
    ) -> ScalarExpr:
        """Computes the maximum of each window."""
        return x

    space = (6, 5, 4)[:count]
    max_pool.example(f32[1, 2, *space], pool_size=2, strides=2)

    @op(averaged, name=f"nn.avg_pool{count}d", reduce="monoid")
    def avg_pool(
        x: ScalarExpr,
        pool_size: Ints = (1,),
        strides: Ints = (1,),
        padding: Ints = (0,),
        dilation: Ints = (1,),
        ceil_mode: bool = False,
        count_include_pad: bool = False,
        layout: Layout | None = None,
        out_layout: Layout | None = None,
        *,
        letters: LoopIndices,
    ) -> ScalarExpr:
        """Computes the mean of each window; `count_include_pad` includes padding."""
        return _mean_with_padding(x, letters) if count_include_pad else x

    avg_pool.example(f32[1, 2, *space], pool_size=3, strides=2, padding=1)

    @op(adapted, name=f"nn.adaptive_avg_pool{count}d", reduce="mean")
    def adaptive_avg_pool(
        x: ScalarExpr,
        output_size: Ints | None = None,
        layout: Layout | None = None,
        out_layout: Layout | None = None,
    ) -> ScalarExpr:
        """Computes means of equal segments, a given number along each spatial axis."""
        return x

    adaptive_avg_pool.example(f32[1, 2, *space], output_size=2)


for _count in SPATIAL:
    _pools(_count)

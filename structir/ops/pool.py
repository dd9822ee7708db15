"""Pooling over windows of one, two and three axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import reduce
from operator import truediv
from typing import Any

import attrs

from structir.ir.dtype import is_int
from structir.opdef.attributes import Ints, Layout
from structir.opdef.call_view import CallView, ResolvedSignature
from structir.opdef.define import op
from structir.opdef.examples import f32
from structir.opdef.index_exprs import LoopIndices
from structir.opdef.index_vars import access_text, where_text
from structir.opdef.layouts import SPATIAL, block, check_rank, each, in_layout, padding
from structir.ops.conv import FITS, window
from structir.projections import scalar_expr
from structir.projections.scalar_expr import LoopIndex, ScalarExpr

WINDOW_COUNT = "(H{k} + lo[{k}] + hi[{k}] - d[{k}]*(p{k} - 1) - 1 + up[{k}])//s[{k}] + 1"
# windows that start before the end padding
WINDOWS_BEFORE_PADDING = "(H{k} + lo[{k}] + up[{k}])//s[{k}]"


@attrs.frozen
class PoolWindows:
    """Index expressions, conditions and attributes of pooling windows."""

    in_axes: list[str]
    out_axes: list[str]
    checks: str
    numbers: dict[str, Any]


def windows_of(
    call: CallView, count: int, name: str, read: Callable[[int], str] = window
) -> PoolWindows:
    """Returns the windows of a pool, from its attributes; `read` is the index of an axis."""
    axes = range(count)
    low, high = padding(call, count)
    strides, dilation = each(call, "strides", count), each(call, "dilation", count)
    pool_size = each(call, "pool_size", count)
    if min(*strides, *dilation, *pool_size) < 1:
        values = f"pool_size {pool_size}, strides {strides}, dilation {dilation}"
        call.reject(f"expected positive pool_size, strides and dilation, found {values}")
    up = tuple([s - 1 if call["ceil_mode"] else 0 for s in strides])
    numbers: dict[str, Any] = {
        "s": strides,
        "d": dilation,
        "lo": tuple(low),
        "hi": tuple(high),
        "up": up,
        "pool_size": pool_size,
    }
    layout = call["layout"] or "NC" + SPATIAL[count]
    check_rank(call, name, layout)
    in_axes = _in_axes(layout, [read(k) for k in axes])
    out_axes = _in_axes(layout, [f"h{k}" for k in axes])
    sizes = [*_block_size(layout), *[f"p{k} == pool_size[{k}]" for k in axes]]
    counts = [f"h{k} == {_window_count(numbers, k)}" for k in axes]
    return PoolWindows(
        in_layout(call, layout, in_axes),
        in_layout(call, call["out_layout"] or layout, out_axes),
        where_text(sizes, counts, [FITS.format(k=k) for k in axes]),
        numbers,
    )


def _window_count(numbers: dict[str, Any], k: int) -> str:
    """Returns the number of windows; in ceil mode each starts before the end padding."""
    step, size, after = numbers["s"][k], numbers["pool_size"][k], numbers["hi"][k]
    extent = numbers["d"][k] * (size - 1) + 1
    all_begin_before = not numbers["up"][k] or extent - after >= step
    count = WINDOW_COUNT if all_begin_before else f"min({WINDOW_COUNT}, {WINDOWS_BEFORE_PADDING})"
    return count.format(k=k)


def pool_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature with reads at `stride * h + dilation * p - padding`.

    With `ceil_mode` the last windows may be partial, but each starts within the input or the
    padding before it.
    """
    return _signature(windows_of(call, int(call.op[-2]), "x"))


def _signature(windows: PoolWindows, condition: str = "") -> ResolvedSignature:
    signature = f"{access_text('x', windows.in_axes)} -> {access_text('out', windows.out_axes)}"
    return ResolvedSignature(signature, windows.checks, condition, windows.numbers)


def avg_pool_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature of a mean; `count_include_pad` counts padding but nothing after it.

    Elements of integers cannot be divided before their sum: their padding is read, as elements
    that the body replaces by 0.
    """
    signature, monoid, counted = pool_signature(call), "mean", call["count_include_pad"]
    pads_integers = counted and is_int(call.info("x").dtype or "")
    if pads_integers:
        windows = windows_of(call, int(call.op[-2]), "x", _clamped_window)
        inside = [_within_padding(k) for k, up in enumerate(windows.numbers["up"]) if up]
        signature = _signature(windows, " and ".join(inside))
    elif counted:
        monoid = "sum"
    attributes = {**signature.attributes, "monoid": monoid, "pads_integers": pads_integers}
    return attrs.evolve(signature, attributes=attributes)


def _clamped_window(k: int) -> str:
    index, axis = window(k).split(" : ")
    return f"min(max({index}, 0), size({axis}) - 1) : {axis}"


def _within_padding(k: int) -> str:
    index, axis = window(k).split(" : ")
    return f"{index} < size({axis}) + hi[{k}]"


def _with_zeros(x: ScalarExpr, loop: LoopIndices) -> ScalarExpr:
    """Returns an element, or 0 where its window is in the padding."""
    numbers = loop.attributes
    for k, (step, dilation, low) in enumerate(
        zip(numbers["s"], numbers["d"], numbers["lo"], strict=True)
    ):
        h, p = (LoopIndex(loop.symbol(f"{name}{k}")) for name in "hp")
        index = h * step + p * dilation - low
        x = scalar_expr.select(index < 0, 0, x)
        x = scalar_expr.select(index >= loop.extents[f"H{k}"], 0, x)
    return x


def _mean_term(x: ScalarExpr, loop: LoopIndices) -> ScalarExpr:
    """Returns the term of an element in the mean of its window."""
    if loop.attributes["pads_integers"]:
        return _with_zeros(x, loop)
    return _mean_with_padding(x, loop) if loop.attributes["monoid"] == "sum" else x


def _mean_with_padding(x: ScalarExpr, loop: LoopIndices) -> ScalarExpr:
    """Divides an element by the size of its window, including padding but no index beyond it."""
    numbers = loop.attributes
    counts = [
        _window_elements(loop, k) if up else numbers["pool_size"][k] for k, up in _ceil_terms(loop)
    ]
    full_size = math.prod([n for n in counts if isinstance(n, int)])
    partial = [n for n in counts if isinstance(n, ScalarExpr)]
    return reduce(truediv, [scalar_expr.cast(n, "float32") for n in partial], x / full_size)


def _ceil_terms(loop: LoopIndices) -> Iterable[tuple[int, int]]:
    return enumerate(loop.attributes["up"])


def _window_elements(loop: LoopIndices, k: int) -> ScalarExpr:
    """Returns the number of elements of a window within the axis and its padding."""
    numbers = loop.attributes
    size, step, dilation = (numbers[name][k] for name in ("pool_size", "s", "d"))
    extent = loop.extents[f"H{k}"] + numbers["lo"][k] + numbers["hi"][k]
    remaining = extent - LoopIndex(loop.symbol(f"h{k}")) * step
    return scalar_expr.min((remaining + dilation - 1) // dilation, size)


def _in_axes(layout: str, spatial: list[str]) -> dict[str, str]:
    inner = {"c": "c1"} if block(layout, "c") else {}
    return {"N": "n", "C": "c", **dict(zip(SPATIAL[len(spatial)], spatial, strict=True)), **inner}


def _block_size(layout: str) -> list[str]:
    """Returns the condition on the size of the blocks of channels in a layout such as NCHW4c."""
    size = block(layout, "c")
    return [f"c1 == {size}"] if size else []


def adaptive_pool_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature of adaptive windows: equal segments of the axis."""
    count = int(call.op[-2])
    layout = call["layout"] or "NC" + SPATIAL[count]
    check_rank(call, "x", layout)
    axes = range(count)
    output_size = call["output_size"]
    sizes = None if output_size is None else each(call, "output_size", count)
    in_axes = in_layout(call, layout, _in_axes(layout, [f"y{k}" for k in axes]))
    out_axes = in_layout(
        call, call["out_layout"] or layout, _in_axes(layout, [f"h{k}" for k in axes])
    )
    checks = [f"h{k} == y{k}" if sizes is None else f"h{k} == segments[{k}]" for k in axes]
    inside = [_same_position(k) if sizes is None else _in_segment(k) for k in axes]
    signature = f"{access_text('x', in_axes)} -> {access_text('out', out_axes)}"
    return ResolvedSignature(
        signature,
        where_text(checks, _block_size(layout)),
        " and ".join(inside),
        {"segments": sizes or ()},
    )


def _in_segment(k: int) -> str:
    return (
        f"h{k}*size(y{k})//size(h{k}) <= y{k} and "
        f"y{k} < ((h{k} + 1)*size(y{k}) + size(h{k}) - 1)//size(h{k})"
    )


def _same_position(k: int) -> str:
    """Returns the condition that the index of the result equals that of the operand."""
    return f"h{k} <= y{k} and y{k} <= h{k}"


def _declare_pools(count: int) -> None:
    """Declares the pools over a number of spatial axes."""

    @op(pool_signature, name=f"nn.max_pool{count}d", reduce="max")
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
        """Computes the maximum of each window.

        With `ceil_mode` the last windows may extend beyond the padding; those that begin beyond it
        are dropped, as in torch.
        """
        return x

    space = (6, 5, 4)[:count]
    max_pool.example(f32[1, 2, *space], pool_size=2, strides=2)

    @op(avg_pool_signature, name=f"nn.avg_pool{count}d", reduce="monoid")
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
        loop: LoopIndices,
    ) -> ScalarExpr:
        """Computes the mean of each window; `count_include_pad` includes padding.

        Means of integers are truncated. With `ceil_mode` the last windows may extend beyond the
        padding; those that begin beyond it are dropped, as in torch.
        """
        return _mean_term(x, loop)

    avg_pool.example(f32[1, 2, *space], pool_size=3, strides=2, padding=1)


def _declare_adaptive_pool(count: int) -> None:
    """Declares the adaptive pool over a number of spatial axes."""

    @op(adaptive_pool_signature, name=f"nn.adaptive_avg_pool{count}d", reduce="mean")
    def adaptive_avg_pool(
        x: ScalarExpr,
        output_size: Ints | None = None,
        layout: Layout | None = None,
        out_layout: Layout | None = None,
    ) -> ScalarExpr:
        """Computes the mean of each of `output_size` equal segments along every spatial axis."""
        return x

    adaptive_avg_pool.example(f32[1, 2, *(6, 5, 4)[:count]], output_size=2)


for _count in SPATIAL:
    _declare_pools(_count)
    _declare_adaptive_pool(_count)

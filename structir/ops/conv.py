"""Convolutions over one to three spatial axes, and transposed convolutions.

All share one index expression: `stride * h + dilation * p - padding`. A convolution reads its
operand at this index and skips reads outside of the axis. A transposed convolution writes there.
"""

from __future__ import annotations

from structir.opdef.attributes import DType, Ints, Layout
from structir.opdef.call_view import CallView, ResolvedSignature
from structir.opdef.define import Declaration, op
from structir.opdef.examples import f32
from structir.opdef.index_vars import access_text, where_text
from structir.opdef.layouts import SPATIAL, block, check_rank, each, in_layout, padding
from structir.projections.scalar_expr import ScalarExpr

SPREAD = "H{k} == (h{k} - 1)*s[{k}] + d[{k}]*(p{k} - 1) + 1 - lo[{k}] - hi[{k}] + extra[{k}]"
SHRUNK = "h{k} == (H{k} + lo[{k}] + hi[{k}] - d[{k}]*(p{k} - 1) - 1)//s[{k}] + 1"
FITS = "h{k} >= 1"  # a window that is wider than its padded axis is an error


def window(k: int) -> str:
    """Returns the index expression of one spatial axis."""
    return f"s[{k}]*h{k} + d[{k}]*p{k} - lo[{k}] : H{k}"


def conv_signature(call: CallView) -> ResolvedSignature:
    """Returns the index signature of a convolution; the op name determines its rank."""
    count = int(call.op[-2])
    layout, kernel, out_layout = _layouts(call, count, "OI")
    axes = range(count)
    c, o = (
        _block(call, (layout, "c"), (kernel, "i")),
        _block(call, (out_layout, "c"), (kernel, "o")),
    )
    if (c or o) and call["groups"] != 1:
        call.reject(f"groups: expected 1 for layouts with blocks, found {call['groups']}")
    channel, result = "flat(c0, c1)" if c else "flat(g, c)", "flat(o0, o1)" if o else "flat(g, o)"
    of_result = result if o or not c else "o"
    x = _channels(layout, "C", "c", channel)
    y = _channels(out_layout, "C", "c", of_result)
    w = _channels(kernel, "I", "i", channel if c else "c") | _channels(kernel, "O", "o", of_result)
    x |= {"N": "n", **_spatial(count, [window(k) for k in axes])}
    y |= {"N": "n", **_spatial(count, [f"h{k}" for k in axes])}
    w |= _spatial(count, [f"p{k}" for k in axes])
    blocks = [f"c1 == {c}" if c else "g == groups", f"o1 == {o}" if o else ""]
    checks = where_text(blocks, [rule.format(k=k) for rule in (SHRUNK, FITS) for k in axes])
    reads = [
        access_text("x", in_layout(call, layout, x)),
        access_text("weight", in_layout(call, kernel, w)),
    ]
    out = access_text("out", in_layout(call, out_layout, y))
    nouns = {"c": "input channels"}
    return ResolvedSignature(
        f"{', '.join(reads)} -> {out} @ out_dtype or T", checks, "", _numbers(call), nouns=nouns
    )


def _block(call: CallView, *axes: tuple[str, str]) -> int:
    """Returns the channels per block of these (layout, axis), 0 without; they must agree."""
    sizes = {block(layout, axis) for layout, axis in axes} - {0}
    if len(sizes) > 1:
        layouts = " and ".join(layout for layout, _ in axes)
        call.reject(f"expected equal blocks of channels in the layouts, found {layouts}")
    return sizes.pop() if sizes else 0


def _channels(layout: str, axis: str, inner: str, expression: str) -> dict[str, str]:
    """Returns the index expressions of channels; `flat(c0, c1)` is two axes in a blocked layout."""
    if not block(layout, inner):
        return {axis: expression}
    first, second = expression.removeprefix("flat(").removesuffix(")").split(", ")
    return {axis: first, inner: second}


def conv_transpose_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature of a convolution with operand and result exchanged."""
    count = int(call.op.removesuffix("_transpose")[-2])
    layout, kernel, out_layout = _layouts(call, count, "IO")
    axes = range(count)
    extra, strides = each(call, "output_padding", count), each(call, "strides", count)
    bounds = tuple(map(max, strides, each(call, "dilation", count)))
    if any(e >= bound for e, bound in zip(extra, bounds, strict=True)):
        call.reject(
            f"output_padding: expected values below {bounds}, the larger of strides and dilation, "
            f"found {extra}"
        )
    x = {"N": "n", "C": "flat(g, c)", **_spatial(count, [f"h{k}" for k in axes])}
    w = {"I": "flat(g, c)", "O": "o", **_spatial(count, [f"p{k}" for k in axes])}
    y = {"N": "n", "C": "flat(g, o)", **_spatial(count, [window(k) for k in axes])}
    reads = [
        access_text("x", in_layout(call, layout, x)),
        access_text("weight", in_layout(call, kernel, w)),
    ]
    out = access_text("out", in_layout(call, out_layout, y))
    checks = where_text("g == groups", [SPREAD.format(k=k) for k in axes])
    attributes = {**_numbers(call), "extra": extra}
    return ResolvedSignature(
        f"{', '.join(reads)} -> {out} @ out_dtype or T", checks, "", attributes
    )


def _layouts(call: CallView, count: int, channels: str) -> tuple[str, str, str]:
    layout = call["data_layout"] or "NC" + SPATIAL[count]
    kernel = call["kernel_layout"] or channels + SPATIAL[count]
    check_rank(call, "x", layout)
    check_rank(call, "weight", kernel)
    return layout, kernel, call["out_layout"] or layout


def _spatial(count: int, entries: list[str]) -> dict[str, str]:
    return dict(zip(SPATIAL[count], entries, strict=True))


def _numbers(call: CallView) -> dict[str, object]:
    count = int(call.op.removesuffix("_transpose")[-2])
    low, high = padding(call, count)
    strides, dilation = each(call, "strides", count), each(call, "dilation", count)
    if min(*strides, *dilation, call["groups"]) < 1:
        numbers = f"strides {list(strides)}, dilation {list(dilation)}, groups {call['groups']}"
        call.reject(f"expected positive strides, dilation and groups, found {numbers}")
    return {"s": strides, "d": dilation, "lo": tuple(low), "hi": tuple(high)}


def _convolution(count: int) -> Declaration:
    """Declares the convolution over a number of spatial axes, and its transpose."""

    @op(conv_signature, name=f"nn.conv{count}d", reduce="sum")
    def conv(
        x: ScalarExpr,
        weight: ScalarExpr,
        strides: Ints = (1,),
        padding: Ints = (0,),
        dilation: Ints = (1,),
        groups: int = 1,
        data_layout: Layout | None = None,
        kernel_layout: Layout | None = None,
        out_layout: Layout | None = None,
        out_dtype: DType | None = None,
    ) -> ScalarExpr:
        """Computes a convolution (cross-correlation)."""
        return x * weight

    space, window = (6, 5, 4)[:count], (3, 2, 2)[:count]
    conv.example(f32[2, 3, *space], f32[4, 3, *window], padding=1)
    conv.example(f32[1, 4, *space], f32[4, 2, *window], strides=2, groups=2)

    @op(conv_transpose_signature, name=f"nn.conv{count}d_transpose", reduce="sum")
    def conv_transpose(
        x: ScalarExpr,
        weight: ScalarExpr,
        strides: Ints = (1,),
        padding: Ints = (0,),
        output_padding: Ints = (0,),
        dilation: Ints = (1,),
        groups: int = 1,
        data_layout: Layout | None = None,
        kernel_layout: Layout | None = None,
        out_layout: Layout | None = None,
        out_dtype: DType | None = None,
    ) -> ScalarExpr:
        """Computes a transposed convolution, the adjoint of a convolution."""
        return x * weight

    conv_transpose.example(f32[2, 3, *space], f32[3, 4, *window], strides=2, padding=1)
    conv_transpose.example(f32[1, 2, *(2,) * count], f32[2, 1, *(2,) * count], groups=2)
    return conv


conv1d, conv2d, conv3d = map(_convolution, SPATIAL)

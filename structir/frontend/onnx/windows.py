"""Sliding windows over spatial axes: their attributes, with `auto_pad` resolved."""

from __future__ import annotations

import attrs

from structir.frontend.onnx.node import OnnxNode
from structir.ir import dims
from structir.ir.dims import Dim, Poly

MAX_PADDING = 1 << 31
AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


@attrs.frozen
class OnnxWindow:
    """A sliding window: per axis its size, stride, dilation, and the padding on both sides."""

    sizes: tuple[Dim, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[Dim, ...]
    after: tuple[Dim, ...]

    @property
    def is_static(self) -> bool:
        """Whether all padding is known at import time, and none of it crops."""
        return not any(isinstance(p, Poly) or p < 0 for p in (*self.before, *self.after))

    @property
    def padding(self) -> list[int]:
        """The padding in the order of StructIR's ops: all axes before, then all axes after."""
        return [*self.before, *self.after]  # type: ignore[list-item]


def auto_pad_of(node: OnnxNode) -> str:
    """Returns the attribute `auto_pad`; an empty string counts as `NOTSET`."""
    return node.choice("auto_pad", AUTO_PADS, "NOTSET") if node.attr("auto_pad", "") else "NOTSET"


def window_of(node: OnnxNode, sizes: tuple[Dim, ...], crops: bool = False) -> OnnxWindow:
    """Returns the window of a convolution or pooling node. A window with steps of more than its
    extent may need a part of the operand only: `SAME` padding is then 0, or negative if `crops`."""
    count = len(sizes)
    strides = per_axis_of(node, "strides", count)
    dilations = per_axis_of(node, "dilations", count)
    mode = auto_pad_of(node)
    spatial = node.dims()[2:]
    if len(spatial) != count:
        node.fail(f"window: expected an operand of rank {count + 2}, found rank {node.rank()}")
    if mode in ("NOTSET", "VALID"):
        pads = pads_of(node, count) if mode == "NOTSET" else (0,) * (2 * count)
        return OnnxWindow(sizes, strides, dilations, tuple(pads[:count]), tuple(pads[count:]))
    totals = [
        _same_padding(size, (k - 1) * d + 1, s, crops)
        for size, k, s, d in zip(spatial, sizes, strides, dilations, strict=True)
    ]
    extra = 0 if mode == "SAME_UPPER" else 1
    first = tuple([_half(total + extra) for total in totals])
    last = tuple([total - p for total, p in zip(totals, first, strict=True)])
    return OnnxWindow(sizes, strides, dilations, first, last)


def _half(total: Dim) -> Dim:
    """Returns the half of a total, rounded toward zero."""
    if dims.at_least(total, 0) is True:
        return dims.floordiv(total, 2)
    removed = dims.floordiv(dims.dim_max(-total, 0), 2)
    return dims.floordiv(dims.dim_max(total, 0), 2) - removed


def pads_of(node: OnnxNode, count: int) -> tuple[int, ...]:
    """Returns the attribute `pads`: the padding before each of the axes, then after each."""
    pads = tuple(node.attr("pads", (0,) * (2 * count)))
    if len(pads) != 2 * count:
        node.fail(f"pads: expected {2 * count} values for {count} axes, found {len(pads)}")
    if max(map(abs, pads), default=0) > MAX_PADDING:
        node.fail(f"pads: expected at most {MAX_PADDING}, found {max(map(abs, pads))}")
    return pads


def per_axis_of(node: OnnxNode, name: str, count: int) -> tuple[int, ...]:
    """Returns an attribute with a positive number per axis; 1 by default."""
    values = tuple(node.attr(name, (1,) * count))
    if len(values) != count or any(v < 1 for v in values):
        node.fail(f"{name}: expected {count} positive integers, found {list(values)}")
    return values


def _same_padding(size: Dim, extent: Dim, stride: int, crops: bool) -> Dim:
    """Returns the total `SAME` padding of one axis."""
    if stride == 1:
        return extent - 1
    total = (dims.ceildiv(size, stride) - 1) * stride + extent - size
    is_cropped = crops and dims.at_least(extent, stride) is not True
    return total if is_cropped else dims.dim_max(total, 0)

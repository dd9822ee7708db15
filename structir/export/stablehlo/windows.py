"""Reads of windows: convolutions and pooling.

An axis with the index `stride * o + dilation * k + offset` over an index variable `o` of the result
and an index variable `k` of a reduction is a window of the operand for each `o`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import attrs

from structir.export.stablehlo.accesses import OPS, equal, unpacked
from structir.export.stablehlo.elements import HloElement, LoopGrid
from structir.export.stablehlo.tensors import HloTensor, integers
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.dtype import is_float
from structir.projections.monoid import MONOIDS
from structir.projections.spec import AccessIndex, Statement, affine


@attrs.frozen
class WindowAxis:
    """An axis that is read in windows, with constant parameters.

    `low` and `high` are the elements of padding; a negative number removes elements.
    """

    output: Sym
    inner: Sym
    stride: int
    dilation: int
    low: int
    high: int


@attrs.frozen(eq=False)
class WindowedRead:
    """An operand with windows along some axes, and an index variable for each other axis."""

    operand: HloTensor
    axes: tuple[WindowAxis | Sym, ...]

    @property
    def windows(self) -> list[WindowAxis]:
        """The axes with windows."""
        return [axis for axis in self.axes if isinstance(axis, WindowAxis)]

    @property
    def plain(self) -> list[Sym]:
        """The index variables of the other axes."""
        return [axis for axis in self.axes if not isinstance(axis, WindowAxis)]

    @property
    def padded(self) -> bool:
        """Whether any window has elements outside of the operand."""
        return any([window.low > 0 or window.high > 0 for window in self.windows])


def windowed(
    grid: LoopGrid,
    operand: HloTensor,
    entries: Sequence[AccessIndex],
    statement: Statement,
    unpack: bool = True,
) -> WindowedRead | None:
    """Returns a read as windows, or None; there is at least one.

    With `unpack`, axes with the row-major linear index of several index variables are split, those
    of windows without overlap among them.
    """
    if unpack:
        operand, entries = unpacked(grid, operand, entries)
    kept = [k for k, entry in enumerate(entries) if entry.size != 1 or entry.index != 0]
    operand = grid.reshape(operand, [operand.dims[k] for k in kept])
    axes = [_axis(grid, entries[k], statement) for k in kept]
    if None in axes or not any([isinstance(axis, WindowAxis) for axis in axes]):
        return None
    read = WindowedRead(operand, tuple([axis for axis in axes if axis is not None]))
    used = [*read.plain, *[s for w in read.windows for s in (w.output, w.inner)]]
    return read if len({*used}) == len(used) else None


def _axis(grid: LoopGrid, entry: AccessIndex, statement: Statement) -> WindowAxis | Sym | None:
    if entry.data is not None or entry.loose or entry.whole:
        return None
    linear = affine(entry.index, grid.order)
    if linear is None:
        return None
    coefficients, offset = linear
    if len(coefficients) == 1 and offset == 0:
        ((variable, step),) = coefficients.items()
        return variable if step == 1 and equal(grid.extents[variable], entry.size) else None
    inner = [variable for variable in coefficients if variable in statement.reduce]
    outputs = [variable for variable in coefficients if variable in statement.parallel]
    if len(inner) != 1 or len(outputs) != 1 or not isinstance(offset, int):
        return None
    stride, dilation = coefficients[outputs[0]], coefficients[inner[0]]
    size = grid.extents[inner[0]]
    if not (isinstance(stride, int) and isinstance(dilation, int) and isinstance(size, int)):
        return None
    if stride < 1 or dilation < 1 or size < 1:
        return None
    reach = dilation * (size - 1) + 1
    high = _padding(entry.size - offset, grid.extents[outputs[0]], reach, stride, -offset)
    if high is None:
        return None
    return WindowAxis(outputs[0], inner[0], stride, dilation, -offset, high)


def _padding(size: Dim, count: Dim, reach: int, stride: int, low: int) -> int | None:
    """Returns the elements after an axis for which there are `count` windows, or None.

    `size` includes the elements before the axis. With symbolic sizes, a proof is required.
    """
    exact = (count - 1) * stride + reach - size
    usual = [exact] if isinstance(exact, int) else list(range(-stride, reach + stride))
    for high in (0, low, *usual):
        if equal(dims.floordiv(size + high - reach, stride) + 1, count):
            return high
    return None


# ---- pooling


def pooled(
    grid: LoopGrid, read: WindowedRead, statement: Statement, dtype: str
) -> HloElement | None:
    """Returns a reduction over windows as a `reduce_window`, or None."""
    monoid = statement.monoid or ""
    if monoid not in ("sum", "prod", "max", "min", "mean"):
        return None
    if {*statement.reduce} != {window.inner for window in read.windows}:
        return None
    x = grid.block.convert(read.operand, dtype)
    total = _reduce_window(grid, read, x, monoid)
    if monoid != "mean":
        return total
    if not is_float(dtype):
        return None
    sizes = [grid.extents[window.inner] for window in read.windows]
    count = HloElement(None, (), dtype, float(prod(map(int, sizes))))  # type: ignore[arg-type]
    if read.padded:
        ones = grid.filled(1, dtype, x.dims)
        count = _reduce_window(grid, read, ones, "sum")
    return grid.binary("divide", total, count, dtype)


def _reduce_window(grid: LoopGrid, read: WindowedRead, x: HloTensor, monoid: str) -> HloElement:
    outputs = tuple([a.output if isinstance(a, WindowAxis) else a for a in read.axes])
    whole = WindowAxis(outputs[0], outputs[0], 1, 1, 0, 0)
    windows = [axis if isinstance(axis, WindowAxis) else None for axis in read.axes]
    sizes = [1 if w is None else int(grid.extents[w.inner]) for w in windows]  # type: ignore[arg-type]
    known = [w or whole for w in windows]
    attributes = {
        "window_dimensions": integers(sizes),
        "window_strides": integers([w.stride for w in known]),
        "window_dilations": integers([w.dilation for w in known]),
        "padding": _padding_attribute(known),
    }
    start = grid.block.number(MONOIDS[monoid].identity(x.dtype), x.dtype)
    region = grid.block.combining(OPS[MONOIDS[monoid].combine], x.dtype)
    shape = grid.shape(outputs)
    result = grid.block.emit("reduce_window", [x, start], shape, x.dtype, attributes, [region])
    return HloElement(result, outputs, x.dtype)


def _padding_attribute(windows: Sequence[WindowAxis]) -> str:
    pairs = [[window.low, window.high] for window in windows]
    return f"dense<{pairs}> : tensor<{len(pairs)}x2xi64>"


# ---- convolutions


def convolved(
    grid: LoopGrid,
    read: WindowedRead,
    weight: HloElement,
    statement: Statement,
) -> HloElement | None:
    """Returns a sum of products of windows and weights as a `convolution`, or None."""
    windows, parallel = read.windows, {*statement.parallel}
    inner = [window.inner for window in windows]
    outputs = [window.output for window in windows]
    batch = [axis for axis in read.plain if axis not in weight.axes]
    groups = [axis for axis in read.plain if axis in weight.axes and axis in parallel]
    channels = [axis for axis in read.plain if axis in weight.axes and axis not in parallel]
    features = [axis for axis in weight.axes if axis in parallel and axis not in groups]
    count = packed(grid, groups)
    if {*statement.reduce} != {*inner, *channels} or {*batch, *features, *groups} & {*outputs}:
        return None
    if not {*statement.reduce} <= {*weight.axes} or not {*batch} <= parallel:
        return None
    if not isinstance(count, int) or count < 1 or weight.tensor is None:
        return None
    inputs = [read.axes.index(axis) for axis in (*batch, *groups, *channels, *windows)]
    x = grid.block.transpose(read.operand, inputs)
    spatial = x.dims[len(x.dims) - len(windows) :]
    x = grid.reshape(x, (packed(grid, batch), packed(grid, [*groups, *channels]), *spatial))
    order = [weight.axes.index(axis) for axis in (*groups, *features, *channels, *inner)]
    kernel = grid.block.transpose(weight.tensor, order)
    filters = packed(grid, [*groups, *features])
    kernel = grid.reshape(kernel, (filters, packed(grid, channels), *grid.shape(inner)))
    kind = weight.kind
    shape = (packed(grid, batch), filters, *grid.shape(outputs))
    operands = [grid.block.convert(x, kind), kernel]
    attributes = _convolution_attributes(windows, count)
    result = grid.block.emit("convolution", operands, shape, kind, attributes)
    axes = (*batch, *groups, *features, *outputs)
    return HloElement(grid.reshape(result, grid.shape(axes)), axes, kind)


def packed(grid: LoopGrid, axes: Sequence[Sym]) -> Dim:
    """Returns the size of an axis for all of these index variables."""
    return prod(grid.shape(axes))


def _convolution_attributes(windows: Sequence[WindowAxis], groups: int) -> Mapping[str, str]:
    spatial = ", ".join([str(k) for k in range(len(windows))])
    numbers = f"[b, f, {spatial}]x[o, i, {spatial}]->[b, f, {spatial}]"
    return {
        "dimension_numbers": f"#stablehlo.conv<{numbers}>",
        "window_strides": integers([window.stride for window in windows]),
        "rhs_dilation": integers([window.dilation for window in windows]),
        "padding": _padding_attribute(windows),
        "feature_group_count": f"{groups} : i64",
        "batch_group_count": "1 : i64",
    }

"""Contractions and convolutions."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import Any

from structir.ir.expr import Expr
from structir.lax.checks import invalid, sequence
from structir.numpy import contraction, indexing, shaping
from structir.numpy import padding as pads
from structir.script import R
from structir.tracing.array import TracedArray, cast, emit, expression, operand, promoted
from structir.tracing.context import traced


@traced
def dot(
    lhs: Any, rhs: Any, precision: Any = None, preferred_element_type: Any = None
) -> TracedArray:
    """Returns the product of vectors and matrices; `precision` is a hint."""
    return contraction.dot(lhs, rhs, preferred_element_type=preferred_element_type)


@traced
def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> TracedArray:
    """Returns the matrix product over the last two axes."""
    return contraction.matmul(lhs, rhs)


@traced
def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> TracedArray:
    """Returns a contraction; `dimension_numbers` is ((contracted), (batch)) of pairs of axes."""
    contracted, batch = _axis_pairs(dimension_numbers, shaping.ndim(lhs), shaping.ndim(rhs))
    letters = iter(string.ascii_letters)
    left = [next(letters) for _ in range(shaping.ndim(lhs))]
    right = [next(letters) for _ in range(shaping.ndim(rhs))]
    for a, b in (*contracted, *batch):
        right[b] = left[a]
    summed = {left[a] for a, _ in contracted}
    first = [left[a] for a, _ in batch]
    free = [a for a in (*left, *right) if a not in summed and a not in first]
    subscripts = f"{''.join(left)},{''.join(right)}->{''.join([*first, *free])}"
    return contraction.einsum(subscripts, lhs, rhs, preferred_element_type=preferred_element_type)


def _axis_pairs(dimension_numbers: Any, *ranks: int) -> list[list[tuple[int, int]]]:
    """Returns the pairs of axes that are contracted, and those of the batch."""
    pairs = []
    for group in sequence(dimension_numbers, "dot_general: dimension_numbers"):
        sides = [
            sequence(axes, "dot_general: axes") for axes in sequence(group, "dot_general: axes")
        ]
        if len(sides) != 2 or len(sides[0]) != len(sides[1]):
            raise invalid(f"dot_general: expected as many axes of lhs as of rhs, found {group}")
        named = zip(sides, ranks, strict=True)
        axes = [[shaping.axis_of(k, rank, "dot_general: axis") for k in ks] for ks, rank in named]
        pairs.append(list(zip(*axes, strict=True)))
    used = [[pair[side] for group in pairs for pair in group] for side in (0, 1)]
    if len(pairs) != 2 or any(len(set(axes)) < len(axes) for axes in used):
        form = "((lhs contracted, rhs contracted), (lhs batch, rhs batch)) of different axes"
        raise invalid(f"dot_general: dimension_numbers: expected {form}, found {dimension_numbers}")
    return pairs


CONVOLUTIONS: dict[int, Callable[..., Expr]] = {1: R.nn.conv1d, 2: R.nn.conv2d, 3: R.nn.conv3d}


def layouts_of(dimension_numbers: Any, count: int) -> list[list[int]]:
    """Returns the positions of batch and channels (of the kernel: outputs and inputs), then of the
    spatial axes, for strings such as "NHWC" or tuples of such positions."""
    spatial = "DHW"[-count:] if count > 1 else "H"
    specs = dimension_numbers or (f"NC{spatial}", f"OI{spatial}", f"NC{spatial}")
    if all([isinstance(spec, str) for spec in specs]):
        letters = [c for c in specs[1] if c not in "OI"]
        names = [("N", "C", *letters), ("O", "I", *letters), ("N", "C", *letters)]
        specs = [[spec.find(c) for c in order] for spec, order in zip(specs, names, strict=True)]
    layouts = [[int(position) for position in spec] for spec in specs]
    if any([sorted(layout) != list(range(count + 2)) for layout in layouts]):
        example = 'such as ("NHWC", "HWIO", "NHWC")'
        message = f"expected three layouts of {count + 2} axes {example}, found {dimension_numbers}"
        raise invalid(f"convolution: dimension_numbers: {message}")
    return layouts


@traced
def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Any = None,
    rhs_dilation: Any = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> TracedArray:
    """Returns a convolution over 1 to 3 axes.

    `dimension_numbers` are strings such as ("NHWC", "HWIO", "NHWC"). With `batch_group_count`, each
    part of the batch has a part of the outputs. `precision` is a hint.
    """
    (x, kernel), _ = promoted(lhs, rhs)
    if preferred_element_type is not None:
        x, kernel = cast(x, preferred_element_type), cast(kernel, preferred_element_type)
    count = x.ndim - 2
    if count not in CONVOLUTIONS or kernel.ndim != x.ndim:
        ranks = f"found ranks {x.ndim} and {kernel.ndim}"
        raise invalid(f"convolution: expected arrays of one rank from 3 to 5, {ranks}")
    layouts = layouts_of(dimension_numbers, count)
    x, kernel = shaping.transpose(x, layouts[0]), shaping.transpose(kernel, layouts[1])
    for axis, factor in enumerate(_numbers(lhs_dilation, count, "lhs_dilation")):
        x = spread(x, 2 + axis, factor)
    dilation = _numbers(rhs_dilation, count, "rhs_dilation")
    strides = _numbers(window_strides, count, "window_strides")
    pairs = window_padding(padding, x.shape[2:], kernel.shape[2:], strides, dilation)
    groups = feature_group_count
    if batch_group_count != 1:
        x, groups = _with_batches_as_channels(x, batch_group_count), batch_group_count
    call = CONVOLUTIONS[count](
        expression(x),
        expression(kernel),
        strides=strides,
        padding=[pair[side] for side in (0, 1) for pair in pairs],
        dilation=dilation,
        groups=groups,
    )
    return shaping.transpose(emit(call), [layouts[2].index(k) for k in range(x.ndim)])


def _numbers(values: Any, count: int, name: str) -> list[int]:
    """Returns a positive number for each of some axes; None is 1."""
    numbers = [1] * count if values is None else [int(v) for v in sequence(values, name)]
    if len(numbers) != count or any([number < 1 for number in numbers]):
        raise invalid(f"{name}: expected {count} positive numbers, found {values}")
    return numbers


def _with_batches_as_channels(x: TracedArray, groups: int) -> TracedArray:
    """Returns an array (n, c, ...) as (n / groups, groups * c, ...)."""
    batch, channels, *sizes = x.shape
    parts = shaping.reshape(x, (groups, batch // groups, channels, *sizes))
    return shaping.reshape(shaping.moveaxis(parts, 0, 1), (batch // groups, -1, *sizes))


def window_padding(padding: Any, sizes: Any, window: Any, strides: Any, dilation: Any) -> Any:
    """Returns the padding before and after each axis: numbers, "VALID", "SAME" or "SAME_LOWER"."""
    if not isinstance(padding, str):
        pairs = [(int(low), int(high)) for low, high in padding]
        if len(pairs) != len(sizes):
            raise invalid(f"padding: expected {len(sizes)} pairs, found {len(pairs)}")
        return pairs
    name = padding.upper()
    if name not in PADDINGS:
        expected = f"expected pairs of numbers, or one of {', '.join(PADDINGS)}"
        raise invalid(f"padding: {expected}, found {padding!r}")
    pairs = []
    for n, k, s, d in zip(sizes, window, strides, dilation, strict=True):
        effective = (k - 1) * d + 1
        total = 0 if name == "VALID" else effective - 1
        if s != 1 and name != "VALID":
            total = known_size((-(-n // s) - 1) * s + effective - n)
        halves = total // 2, total - total // 2
        pairs.append(halves[::-1] if name == "SAME_LOWER" else halves)
    return pairs


PADDINGS = ("VALID", "SAME", "SAME_LOWER")


def known_size(value: Any) -> int:
    """Returns a padding that is not negative; its size must be known."""
    number = value.__index__()
    return number if number > 0 else 0


def spread(x: TracedArray, axis: int, factor: int, value: Any = 0) -> TracedArray:
    """Returns an array with `factor - 1` equal values between the elements of an axis."""
    if factor == 1 or x.dims[axis] == 0:
        return x
    sizes = x.shape
    widths = [(0, 0)] * (axis + 1) + [(0, factor - 1)] + [(0, 0)] * (x.ndim - axis - 1)
    gaps = pads.pad(shaping.expand_dims(x, axis + 1), widths, constant_values=value)
    flat = shaping.reshape(gaps, (*sizes[:axis], sizes[axis] * factor, *sizes[axis + 1 :]))
    prefix = (slice(None),) * axis
    return indexing.getitem(flat, (*prefix, slice(None, (sizes[axis] - 1) * factor + 1)))


@traced
def conv_transpose(
    lhs: Any,
    rhs: Any,
    strides: Sequence[int],
    padding: Any,
    rhs_dilation: Any = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> TracedArray:
    """Returns a transposed convolution: a convolution of the operand with zeros between elements.

    Without `dimension_numbers` the layouts are NHWC and HWIO. With `transpose_kernel`, it is the
    gradient of the convolution by this kernel: spatial axes are reversed, and inputs are outputs.
    """
    count, kernel = shaping.ndim(lhs) - 2, operand(rhs)
    spatial = "HWD"[:count]
    names = dimension_numbers or (f"N{spatial}C", f"{spatial}IO", f"N{spatial}C")
    outputs, inputs, *axes = layouts_of(names, count)[1]
    dilation = _numbers(rhs_dilation, count, "rhs_dilation")
    steps, pairs = _numbers(strides, count, "strides"), padding
    if isinstance(padding, str):
        if padding.upper() not in ("VALID", "SAME"):
            raise invalid(f"padding: expected pairs, VALID or SAME, found {padding!r}")
        sizes = zip([kernel.shape[k] for k in axes], dilation, steps, strict=True)
        settings = [((int(k) - 1) * d + 1, s) for k, d, s in sizes]
        pairs = [_transposed_padding(padding.upper(), k, s) for k, s in settings]
    if transpose_kernel:
        kernel = shaping.swapaxes(shaping.flip(kernel, axes), inputs, outputs)
    return conv_general_dilated(
        lhs,
        kernel,
        [1] * count,
        pairs,
        steps,
        dilation,
        names,
        preferred_element_type=preferred_element_type,
    )


def _transposed_padding(padding: str, width: int, stride: int) -> tuple[int, int]:
    """Returns the padding with which a convolution inverts the sizes of a strided one."""
    if padding == "SAME":
        total = width + stride - 2
        low = width - 1 if stride > width - 1 else -(-total // 2)
    else:
        total, low = width + stride - 2 + max(width - stride, 0), width - 1
    return low, total - low


@traced
def conv(
    lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any, precision: Any = None
) -> TracedArray:
    """Returns a convolution of NCHW and OIHW arrays."""
    return conv_general_dilated(lhs, rhs, window_strides, padding)

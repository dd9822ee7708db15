"""Patches of images, the shapes of convolutions, and small primitives of JAX."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from structir.lax.bits import population_count, shift_right_logical
from structir.lax.checks import invalid
from structir.lax.windows import conv_general_dilated, layouts_of, window_padding
from structir.lazy import exported
from structir.numpy import creation, elementwise, integers, shaping, sorting
from structir.tracing.array import TracedArray, cast
from structir.tracing.array import operand as as_operand
from structir.tracing.context import traced

__all__ = ["ConvDimensionNumbers", "nextafter"]
nextafter = integers.nextafter


class ConvDimensionNumbers(NamedTuple):
    """The positions of batch, channels and spatial axes of a convolution's operands and result;
    those of the kernel are outputs, inputs and spatial axes."""

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


@exported
def conv_dimension_numbers(lhs_shape: Any, rhs_shape: Any, dimension_numbers: Any) -> Any:
    """Returns the positions of the axes for strings such as ("NHWC", "HWIO", "NHWC"), or for None:
    the batch and the channels first."""
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    layouts = layouts_of(dimension_numbers, len(lhs_shape) - 2)
    return ConvDimensionNumbers(*[tuple(layout) for layout in layouts])


@exported
def conv_general_permutations(dimension_numbers: Any) -> tuple[Any, ...]:
    """Returns the permutations that move the axes of operands and result of a convolution in
    front: the batch and the channels."""
    layouts = layouts_of(dimension_numbers, len(dimension_numbers[0]) - 2)
    return tuple([tuple(layout) for layout in layouts])


@traced
def conv_with_general_padding(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> TracedArray:
    """Returns a convolution of NCHW and OIHW arrays with dilations."""
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        preferred_element_type=preferred_element_type,
    )


@traced
def conv_general_dilated_patches(
    lhs: Any,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Any = None,
    rhs_dilation: Any = None,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> TracedArray:
    """Returns the elements of the window at each position of a convolution, as channels: the
    channels of the array, then the elements of the window."""
    array, sizes = as_operand(lhs), tuple(filter_shape)
    layouts = layouts_of(dimension_numbers, len(sizes))
    count, channels = math.prod(sizes), array.shape[layouts[0][1]]
    unit = creation.eye(count, dtype=array.dtype_name)
    kernels = shaping.broadcast_to(unit, (channels, count, count))
    kernel = shaping.reshape(kernels, (channels * count, 1, *sizes))
    order = [layouts[1].index(k) for k in range(len(sizes) + 2)]
    return conv_general_dilated(
        array,
        shaping.transpose(kernel, order),
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dimension_numbers,
        feature_group_count=channels,
        preferred_element_type=preferred_element_type,
    )


@exported
def padtype_to_pads(
    in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Any, padding: Any
) -> Any:
    """Returns the padding before and after each axis, for "SAME", "SAME_LOWER" or "VALID"."""
    return window_padding(padding, in_shape, window_shape, window_strides, [1] * len(in_shape))


@traced
def clz(x: Any) -> TracedArray:
    """Returns the number of zero bits above the highest one of integers."""
    array = as_operand(x)
    width = array.dtype.itemsize * 8
    bits, shift = array, 1
    while shift < width:
        bits = elementwise.bitwise_or(bits, shift_right_logical(bits, shift))
        shift *= 2
    return population_count(elementwise.bitwise_not(bits))


@traced
def mulhi(x: Any, y: Any) -> TracedArray:
    """Returns the upper half of the bits of products of integers of at most 32 bits."""
    first, second = as_operand(x), as_operand(y)
    name, width = first.dtype_name, first.dtype.itemsize * 8
    if width > 32:
        raise invalid(f"mulhi: expected integers of at most 32 bits, found {name}")
    wide = "uint64" if name.startswith("u") else "int64"
    product = cast(first, wide) * cast(second, wide)
    return cast(product >> width, name)


@traced
def real(x: Any) -> TracedArray:
    """Returns the array: its elements are real."""
    return as_operand(x)


@traced
def conj(x: Any) -> TracedArray:
    """Returns the array: its elements are real."""
    return as_operand(x)


@traced
def imag(x: Any) -> TracedArray:
    """Returns zeros: the elements are real."""
    return creation.zeros_like(as_operand(x))


@exported
def dtype(x: Any) -> Any:
    """Returns the dtype of an array."""
    return x.dtype


@traced
def broadcast_to_rank(x: Any, *, rank: int) -> TracedArray:
    """Returns an array with axes of size 1 in front, up to a rank."""
    array = as_operand(x)
    return shaping.reshape(array, (*[1] * (rank - array.ndim), *array.shape))


@traced
def broadcast_like(x: Any, y: Any) -> TracedArray:
    """Returns an array broadcast to the shape of another one."""
    return shaping.broadcast_to(x, as_operand(y).shape)


@exported
def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """Returns the result of the function for the CPU, or of the default one."""
    chosen = per_platform.get("cpu", default)
    if chosen is None:
        raise invalid("platform_dependent: expected a function `cpu` or `default`, found neither")
    return chosen(*args)


@traced
def approx_max_k(
    operand: Any, k: int, reduction_dimension: int = -1, **hints: Any
) -> tuple[TracedArray, TracedArray]:
    """Returns the k largest elements along an axis, and their positions: exactly, as JAX on CPU."""
    return _top(operand, k, reduction_dimension, 1)


@traced
def approx_min_k(
    operand: Any, k: int, reduction_dimension: int = -1, **hints: Any
) -> tuple[TracedArray, TracedArray]:
    """Returns the k smallest elements along an axis, and their positions."""
    return _top(operand, k, reduction_dimension, -1)


def _top(operand: Any, k: int, axis: int, sign: int) -> tuple[TracedArray, TracedArray]:
    values, places = sorting.top_k(as_operand(operand) * sign, k, axis)
    return values * sign, cast(places, "int32")

"""The operand shapes that ONNX states for ops: convolutions, pools, norms, losses, movements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.shape_checks import (
    OperandShapes,
    axes,
    dims_text,
    known_shape,
    shape_rule,
    spatial_rank,
)
from structir.frontend.onnx.shape_patterns import Shape, may_equal
from structir.ir.dims import Dim

SCALAR = "|1"  # of rank 0 or one element


@shape_rule("Gemm")
def gemm(node: OnnxNode) -> Sequence[str | None]:
    lhs = "k m" if node.flag("transA") else "m k"
    rhs = "n k" if node.flag("transB") else "k n"
    return [lhs, rhs, "~m n" if node.version >= 7 else None]


shape_rule("PRelu")(lambda node: ["*x", "~*x" if node.version >= 7 else None])


@shape_rule("Transpose")
def transpose(node: OnnxNode) -> Sequence[str | None]:
    order = node.attr("perm", None)
    if order is not None and set(order) - set(range(len(order))):
        node.fail(f"perm: expected axes from 0 to {len(order) - 1}, found {list(order)}")
    return [axes("x", None if order is None else len(order))]


# ---- convolutions and pools


def _channels(node: OnnxNode, size: str = "c") -> str:
    """Returns the pattern of channels that `group` groups share."""
    group = node.attr("group", 1)
    if group < 1:
        node.fail(f"group: expected a positive integer, found {group}")
    return f"{group}*{size}"


def _kernel_sizes(node: OnnxNode, count: int | None, index: int) -> dict[str, Dim]:
    """Returns the sizes that `kernel_shape` states for a weight of unknown shape."""
    declared = node.attr("kernel_shape", None) or ()
    if known_shape(node, index) is not None or len(declared) != count:
        return {}
    return {f"k{axis}": size for axis, size in enumerate(declared)}


@shape_rule("Conv", "ConvInteger", "QLinearConv")
def conv(node: OnnxNode) -> OperandShapes:
    weight = {"Conv": 1, "ConvInteger": 1, "QLinearConv": 3}[node.op_type]
    count = spatial_rank(node, 0, weight)
    x = f"n {_channels(node)} {axes('x', count)}"
    kernel = f"m c {axes('k', count)}"
    sizes = _kernel_sizes(node, count, weight)
    if node.op_type == "Conv":
        return OperandShapes([x, kernel, "m"], sizes)
    if node.op_type == "ConvInteger":
        return OperandShapes([x, kernel, SCALAR, "|1|m"], sizes)
    _check_same_shape(node, 1, 2)
    _check_same_shape(node, 4, 5)
    _check_same_shape(node, 6, 7)
    per_channel = "|1|m"
    patterns = [x, SCALAR, SCALAR, kernel, per_channel, per_channel, SCALAR, SCALAR, "m"]
    return OperandShapes(patterns, sizes)


@shape_rule("ConvTranspose")
def conv_transpose(node: OnnxNode) -> OperandShapes:
    count = spatial_rank(node, 0, 1)
    weight = f"c o {axes('k', count)}"
    patterns = [f"n c {axes('x', count)}", weight, _channels(node, "o")]
    return OperandShapes(patterns, _kernel_sizes(node, count, 1))


@shape_rule("DeformConv")
def deform_conv(node: OnnxNode) -> OperandShapes:
    groups = node.attr("offset_group", 1)
    if groups < 1:
        node.fail(f"offset_group: expected a positive integer, found {groups}")
    image, weight = known_shape(node, 0), known_shape(node, 1)
    sizes: dict[str, Dim] = {}
    if image is not None and weight is not None and len(image) == len(weight) == 4:
        channels, kernel = image[1], weight[2:]
        if isinstance(channels, int) and channels % groups:
            node.fail(f"offset_group: expected a divisor of {channels} channels, found {groups}")
        if all(isinstance(size, int) for size in kernel):
            sizes["taps"] = groups * math.prod(kernel)
        sizes |= _positions(node, image[2:], kernel)
    offset, mask = "n 2*taps o0 o1", "n taps o0 o1"
    x, kernel_pattern = f"n {_channels(node)} x0 x1", "m c k0 k1"
    return OperandShapes([x, kernel_pattern, offset, "m", mask], sizes)


def _positions(node: OnnxNode, spatial: Shape, kernel: Shape) -> dict[str, Dim]:
    """Returns the known sizes of the result of a convolution of images."""
    strides, dilations = (node.attr(name, None) or (1, 1) for name in ("strides", "dilations"))
    pads = node.attr("pads", None) or (0,) * 4
    results: dict[str, Dim] = {}
    if not len(strides) == len(dilations) == len(pads) // 2 == 2 or min(strides) < 1:
        return results
    for k, (size, extent) in enumerate(zip(spatial, kernel, strict=True)):
        if isinstance(size, int) and isinstance(extent, int):
            padded = size + pads[k] + pads[k + 2]
            results[f"o{k}"] = (padded - dilations[k] * (extent - 1) - 1) // strides[k] + 1
    return results


@shape_rule("AveragePool", "LpPool", "MaxPool", "MaxUnpool")
def pool(node: OnnxNode) -> Sequence[str | None]:
    x = f"n c {axes('x', spatial_rank(node, 0))}"
    return [x, x] if node.op_type == "MaxUnpool" else [x]


shape_rule("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "LRN")(lambda node: ["n c *x"])


@shape_rule("DepthToSpace", "SpaceToDepth")
def image(node: OnnxNode) -> Sequence[str | None]:
    return ["n c h w"]


shape_rule("MaxRoiPool")(lambda node: ["n c h w", "r 5"])
shape_rule("RoiAlign")(lambda node: ["n c h w", "r 4", "r"])
shape_rule("NonMaxSuppression")(lambda node: ["n b 4", "n c b", SCALAR, SCALAR, SCALAR])


@shape_rule("GridSample")
def grid_sample(node: OnnxNode) -> Sequence[str | None]:
    count = spatial_rank(node, 0, 1)
    return [f"n c {axes('x', count)}", f"n {axes('o', count)} {'_' if count is None else count}"]


@shape_rule("AffineGrid")
def affine_grid(node: OnnxNode) -> Sequence[str | None]:
    length = _length(node, 1)
    return ["_ 2 3|_ 3 4" if length is None else f"n {length - 2} {length - 1}", "4|5"]


# ---- norms and losses


shape_rule("BatchNormalization")(lambda node: ["n c *x", "c", "c", "c", "c"])
shape_rule("InstanceNormalization")(lambda node: ["n c *x", "c", "c"])


@shape_rule("GroupNormalization")
def group_normalization(node: OnnxNode) -> OperandShapes:
    groups = node.attr("num_groups")
    if groups < 1:
        node.fail(f"num_groups: expected a positive integer, found {groups}")
    vector = "c" if node.version >= 21 else "g"
    sizes: dict[str, Dim] = {} if node.version >= 21 else {"g": groups}
    shape = known_shape(node, 0)
    if shape is not None and len(shape) > 1 and isinstance(shape[1], int) and shape[1] % groups:
        node.fail(f"num_groups: expected a divisor of {shape[1]} channels, found {groups}")
    return OperandShapes(["n c *x", vector, vector], sizes)


shape_rule("LayerNormalization", "RMSNormalization")(lambda node: ["*x", "~*x", "~*x"])


@shape_rule("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(node: OnnxNode) -> Sequence[str | None]:
    scores, target = known_shape(node, 0), known_shape(node, 1)
    ranks = [len(shape) - k for shape, k in ((scores, 2), (target, 1)) if shape is not None]
    row = axes("d", max(ranks[0], 0) if ranks else None)
    return [f"n c {row}", f"n {row}", "c"]


# ---- gather, scatter and movements


def _length(node: OnnxNode, index: int) -> int | None:
    """Returns the static length of a vector operand, or None."""
    shape = known_shape(node, index)
    if shape is None or len(shape) != 1 or not isinstance(shape[0], int):
        return None
    return shape[0]


@shape_rule("TensorScatter")
def tensor_scatter(node: OnnxNode) -> Sequence[str | None]:
    shape = known_shape(node, 0) or known_shape(node, 1)
    if shape is None:
        return [None, None, "b"]
    rank = len(shape)
    axis = node.axis("axis", -2, rank)
    if axis == 0:
        node.fail("axis: expected an axis after the batch axis 0, found 0")
    cache, update = (
        ["b" if k == 0 else own if k == axis else f"d{k}" for k in range(rank)]
        for own in ("s", "u")
    )
    _check_write(node, axis)
    return [" ".join(cache), " ".join(update), "b"]


def _check_write(node: OnnxNode, axis: int) -> None:
    """Raises `DiagnosticError` if an update certainly exceeds the cache."""
    cache, update = known_shape(node, 0), known_shape(node, 1)
    if cache is None or update is None or len(cache) != len(update):
        return
    size, count = cache[axis], update[axis]
    if not isinstance(size, int) or not isinstance(count, int):
        return
    if count > size:
        node.fail(
            f"operand {node.label(1)}: expected at most {size} entries of axis {axis}, "
            f"the size of the cache, found {count}"
        )
    starts = node.elements(2) if node.has(2) else None
    if starts is None or node.attr("mode", "linear") == "circular":
        return
    for start in starts.ravel():
        if isinstance(start, int) and not 0 <= start <= size - count:
            node.fail(
                f"write_indices: expected 0 to {size - count}, for {count} entries in a cache of "
                f"size {size}, found {start}",
                'write modulo the size of the cache: `mode="circular"`',
            )


@shape_rule("Concat")
def concat(node: OnnxNode) -> Sequence[str | None]:
    count = len(node.values)
    ranks = [len(shape) for k in range(count) if (shape := known_shape(node, k)) is not None]
    if not ranks or len(set(ranks)) > 1 or node.version < 4:
        return []  # ranks that differ are an error of the op itself
    axis = node.axis("axis", rank=ranks[0])
    return [
        " ".join([f"c{k}" if a == axis else f"d{a}" for a in range(ranks[0])]) for k in range(count)
    ]


shape_rule("GatherElements")(lambda node: _of_one_rank(node, 2))
shape_rule("ScatterElements", "Scatter")(lambda node: _of_one_rank(node, 3))


def _of_one_rank(node: OnnxNode, count: int) -> Sequence[str | None]:
    """Returns operands of one rank; all but the first have one shape."""
    shapes = [known_shape(node, k) for k in range(count)]
    ranks = [len(shape) for shape in shapes if shape is not None]
    rank = ranks[0] if ranks else None
    return [axes("x", rank), *[axes("i", rank)] * (count - 1)]


@shape_rule("Expand")
def expand(node: OnnxNode) -> Sequence[str | None]:
    shape, target = known_shape(node, 0), node.elements(1)
    if shape is not None and target is not None:
        pairs = zip(reversed(shape), reversed(target.ravel().tolist()), strict=False)
        if any(1 not in (a, b) and not may_equal(a, b) for a, b in pairs if _are_static(a, b)):
            node.fail(
                f"shape: expected one that broadcasts with {dims_text(shape)}, "
                f"found {dims_text(tuple(target.ravel().tolist()))}"
            )
    return [None, "_"]


def _are_static(*sizes: Any) -> bool:
    return all(isinstance(size, int) for size in sizes)


@shape_rule("Tile")
def tile(node: OnnxNode) -> Sequence[str | None]:
    shape = known_shape(node, 0)
    if node.version < 6:
        return []
    return [axes("x", _length(node, 1)), "_" if shape is None else str(len(shape))]


@shape_rule("Pad")
def pad(node: OnnxNode) -> Sequence[str | None]:
    names = [name for name in ("pads", "paddings") if name in node.attributes]
    length = len(node.attr(names[0])) if names else _length(node, 1)
    has_axes = node.version >= 18 and node.has(3)
    rank = None if length is None or has_axes or length % 2 else length // 2
    return [axes("x", rank), None if names else "_", SCALAR, "_"]


@shape_rule("Resize", "Upsample")
def resize(node: OnnxNode) -> Sequence[str | None]:
    if known_shape(node, 0) is not None or node.attr("axes", None):
        return []
    operands = {"Upsample": (1,), "Resize": (2, 3) if node.version >= 11 else (1,)}[node.op_type]
    lengths = [_length(node, k) for k in operands if node.has(k)]
    return [axes("x", next((n for n in lengths if n), None))]


shape_rule("ReverseSequence")(lambda node: [None, "b"])
shape_rule("Compress")(lambda node: [None, "_"])
shape_rule("OneHot")(lambda node: [None, SCALAR, "2"])
shape_rule("TopK")(lambda node: [None, "1"])


@shape_rule("BlackmanWindow", "HammingWindow", "HannWindow")
def window(node: OnnxNode) -> Sequence[str | None]:
    _check_element(node, 0, "a positive size", lambda size: size > 0)
    return [""]


shape_rule("CumSum", "Trilu")(lambda node: [None, SCALAR])


@shape_rule("Dropout")
def dropout(node: OnnxNode) -> Sequence[str | None]:
    _check_element(node, 1, "a number from 0 to 1", lambda ratio: 0 <= ratio <= 1)
    return [None, "", ""]


def _check_element(node: OnnxNode, index: int, expected: str, holds: Callable[[Any], bool]) -> None:
    """Raises `DiagnosticError` if the known elements of an operand are out of range."""
    if not node.is_constant(index):
        return
    for element in node.constant(index).ravel().tolist():
        if not holds(element):
            node.fail(f"operand {node.label(index)}: expected {expected}, found {element}")


shape_rule("Det")(lambda node: ["*b n n"])
shape_rule("EyeLike")(lambda node: ["n m"])


# ---- quantized operands


@shape_rule("DequantizeLinear", "QuantizeLinear")
def quantized(node: OnnxNode) -> Sequence[str | None]:
    _check_same_shape(node, 1, 2)
    dtype = node.dtype_attr("output_dtype") if node.op_type == "QuantizeLinear" else None
    if dtype is not None and node.has(2) and node.dtype(2) != dtype:
        node.fail(
            f"output_dtype: expected {node.dtype(2)}, the dtype of the zero point, found {dtype}"
        )
    shape = known_shape(node, 0)
    if shape is None:
        return []
    parameter = "|1"
    block = node.attr("block_size", 0)
    if block < 0:
        node.fail(f"block_size: expected 0 or more, found {block}")
    if shape and len(known_shape(node, 1) or ()) > 0:
        axis = node.normalize_axis(node.attr("axis", 1), len(shape)) if _is_vector(node) else 0
        if not block:
            parameter = f"|1|x{axis}" if _is_vector(node) else SCALAR
        else:
            parameter = _blocks(node, shape, block)
    return [axes("x", len(shape)), parameter, parameter]


def _is_vector(node: OnnxNode) -> bool:
    """Returns whether the scale differs along an axis."""
    return known_shape(node, 1) not in (None, (), (1,))


def _blocks(node: OnnxNode, shape: Shape, block: int) -> str:
    """Returns the pattern of a scale per block of an axis."""
    axis = node.normalize_axis(node.attr("axis", 1), len(shape))
    size = shape[axis]
    count = str(-(-size // block)) if isinstance(size, int) else "_"
    return "|1|" + " ".join([count if k == axis else f"x{k}" for k in range(len(shape))])


def _check_same_shape(node: OnnxNode, scale: int, zero: int) -> None:
    """Raises `DiagnosticError` if a scale and its zero point differ in shape."""
    shapes = [known_shape(node, index) for index in (scale, zero)]
    first, second = (() if shape == (1,) else shape for shape in shapes)
    if first is None or second is None:
        return
    if len(first) != len(second) or not all(map(may_equal, first, second)):
        node.fail(
            f"operand {node.label(zero)}: expected shape {dims_text(first)}, "
            f"the shape of the scale, found {dims_text(second)}"
        )


@shape_rule("MatMulInteger")
def mat_mul_integer(node: OnnxNode) -> Sequence[str | None]:
    lhs, rhs = _matrices(node, 0, 1)
    return [lhs[0], rhs[0], lhs[1], rhs[1]]


@shape_rule("QLinearMatMul")
def q_linear_mat_mul(node: OnnxNode) -> Sequence[str | None]:
    for scale, zero in ((1, 2), (4, 5), (6, 7)):
        _check_same_shape(node, scale, zero)
    lhs, rhs = _matrices(node, 0, 3)
    return [lhs[0], lhs[1], lhs[1], rhs[0], rhs[1], rhs[1], SCALAR, SCALAR]


def _matrices(node: OnnxNode, lhs: int, rhs: int) -> list[tuple[str | None, str | None]]:
    """Returns the patterns of matrices, and those of their parameters per row or column."""
    results: list[tuple[str | None, str | None]] = []
    sides = (lhs, "*p m k", "|1|m|*p m 1"), (rhs, "*q k n", "|1|n|*q 1 n")
    for index, matrix, parameter in sides:
        shape = known_shape(node, index)
        if shape is None:
            results.append((None, None))
        else:
            results.append((matrix, parameter) if len(shape) > 1 else ("k", SCALAR))
    return results

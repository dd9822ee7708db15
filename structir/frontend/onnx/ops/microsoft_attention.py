"""Mappings of ONNX Runtime's attention ops, with packed projections and several mask formats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import attrs

from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.ops.microsoft_quantised import FLOAT, integer_product
from structir.frontend.onnx.ops.quantise import broadcast_parameter
from structir.frontend.onnx.registry import MICROSOFT, R, onnx_op
from structir.frontend.scalars import index_range, number, reshape_to, size_number
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Expr, Tuple


@attrs.frozen(eq=False)
class HeadLayout:
    """Queries, keys and values of shape (batch, heads, positions, channels)."""

    query: Expr
    key: Expr
    value: Expr

    def after(self, node: OnnxNode, keys: Expr, values: Expr) -> HeadLayout:
        """Returns the heads with past keys and values prepended."""
        key = node.emit(R.concat(Tuple((keys, self.key)), axis=2))
        value = node.emit(R.concat(Tuple((values, self.value)), axis=2))
        return HeadLayout(self.query, key, value)


def sizes(node: OnnxNode, x: Expr) -> tuple[Dim, ...]:
    """Returns the shape of a value, whose rank must be known."""
    shape = node.tensor_info(x).dims
    if not isinstance(shape, tuple):
        node.fail(f"expected an operand of known rank, found {node.tensor_info(x)}")
    return shape


def split(node: OnnxNode, x: Expr, heads: int) -> Expr:
    """Splits channels into heads: (batch, length, channels) -> (batch, heads, length, size)."""
    batch, length, channels = sizes(node, x)
    heads_apart = reshape_to(x, (batch, length, heads, channels // heads))
    return node.emit(R.permute_dims(heads_apart, [0, 2, 1, 3]))


def attention_output(node: OnnxNode, heads: HeadLayout, masks: list[Expr]) -> Expr:
    """Returns scaled dot-product attention of shape (batch, length, heads * channels)."""
    batch, count, length, width = sizes(node, heads.query)
    total = sizes(node, heads.key)[2]
    scores = R.matmul(heads.query, R.permute_dims(heads.key, [0, 1, 3, 2]))
    scores = R.multiply(scores, head_scale(node, width, _dtype(node, heads.query)))
    if node.flag("unidirectional"):
        masks = [*masks, _causal(node, heads, length, total)]
    for mask in masks:
        scores = R.add(scores, mask)
    result = R.matmul(R.nn.softmax(node.emit(scores), axis=3), heads.value)
    channels = sizes(node, heads.value)[3]
    return reshape_to(R.permute_dims(result, [0, 2, 1, 3]), (batch, length, count * channels))


def head_scale(node: OnnxNode, head_size: Dim, dtype: str) -> Expr:
    """Returns the scale of the scores: the attribute, or 1 / sqrt(head size)."""
    scale = node.attr("scale", 0.0)
    if scale:
        return number(scale, dtype)
    if isinstance(head_size, int):
        return number(1 / math.sqrt(head_size), dtype)
    return R.rsqrt(size_number(head_size, dtype))


def _dtype(node: OnnxNode, x: Expr) -> str:
    return node.tensor_info(x).dtype or FLOAT


def _causal(node: OnnxNode, heads: HeadLayout, length: Dim, total: Dim) -> Expr:
    """Returns the causal mask."""
    rows = R.add(reshape_to(index_range(length), (length, 1)), size_number(total - length))
    later = R.greater(reshape_to(index_range(total), (1, total)), rows)
    return _additive_mask(node, heads, later, lowest=True)


def _additive_mask(node: OnnxNode, heads: HeadLayout, where: Expr, lowest: bool = False) -> Expr:
    """Returns a large negative number where attention is masked, 0 elsewhere."""
    dtype = _dtype(node, heads.query)
    value = -3.4028235e38 if lowest else node.attr("mask_filter_value", -10000.0)
    return R.where(where, number(value, dtype), number(0, dtype))


def masks_of(node: OnnxNode, index: int, heads: HeadLayout) -> list[Expr]:
    """Returns the additive mask of the mask operand: key lengths (rank 1) or one flag per key (rank
    2, 3)."""
    if not node.has(index):
        return []
    batch, _, length, _ = sizes(node, heads.query)
    total = sizes(node, heads.key)[2]
    mask, rank, zero = node[index], node.rank(index), number(0, node.dtype(index))
    if rank == 2:
        is_masked = reshape_to(R.equal(mask, zero), (batch, 1, 1, total))
    elif rank == 3:
        is_masked = reshape_to(R.equal(mask, zero), (batch, 1, length, total))
    elif rank == 1:
        is_masked = _length_mask(node, mask, node.dims(index)[0] == 2 * batch, batch, total)
    else:
        node.fail(f"operand {index} (the mask): expected rank 1 to 3, found rank {rank}")
    return [_additive_mask(node, heads, is_masked)]


def _length_mask(node: OnnxNode, mask: Expr, has_starts: bool, batch: Dim, total: Dim) -> Expr:
    """Returns whether a key is after the end of its sequence or, with `has_starts`, before its
    start."""
    positions = reshape_to(index_range(total, "int32"), (1, 1, 1, total))

    def column(start: Dim) -> Expr:
        cut = R.strided_slice(mask, [0], (start,), (start + batch,))
        return reshape_to(cut, (batch, 1, 1, 1))

    late = R.greater_equal(positions, column(0))
    return R.logical_or(late, R.less(positions, column(batch))) if has_starts else late


def split_projection(node: OnnxNode, packed: Expr) -> HeadLayout:
    """Splits concatenated channels into queries, keys and values."""
    count = int(node.attr("num_heads"))
    channels = sizes(node, packed)[2]
    widths = list(node.attr("qkv_hidden_sizes", None) or [channels // 3] * 3)
    value, start = [], 0
    for each in widths:
        cut = R.strided_slice(packed, [2], (start,), (start + each,))
        value.append(split(node, node.emit(cut), count))
        start = start + each
    return HeadLayout(*value)


def _with_past(node: OnnxNode, heads: HeadLayout, index: int) -> tuple[HeadLayout, Expr | None]:
    """Returns the heads with the past prepended, and the output `present` if the node has it."""
    if node.has(index):
        keys, values = (R.take(node[index], number(k, "int64"), axis=0) for k in (0, 1))
        heads = heads.after(node, keys, values)
    present = None
    if node.is_used(1):
        present = R.stack(Tuple((heads.key, heads.value)), axis=0)
    return heads, present


def _reject_attributes(node: OnnxNode, *names: str) -> None:
    for name in names:
        if node.attr(name, 0):
            node.fail(f"{name}: expected 0, found {node.attr(name, 0)}")


@onnx_op("Attention", domain=MICROSOFT)
def attention(node: OnnxNode) -> list[Any]:
    _reject_attributes(node, "do_rotary", "past_present_share_buffer")
    packed = R.matmul(node[0], node[1])
    packed = node.emit(R.add(packed, node[2]) if node.has(2) else packed)
    heads, present = _with_past(node, split_projection(node, packed), 4)
    masks = masks_of(node, 3, heads)
    if node.has(5):
        masks.append(node[5])
    return [attention_output(node, heads, masks), present]


@onnx_op("QAttention", domain=MICROSOFT)
def quantised_attention(node: OnnxNode) -> list[Any]:
    product = integer_product(node, node[0], node[1], node.get(6), node.get(7))
    scale = R.multiply(broadcast_parameter(node, 3, None), broadcast_parameter(node, 4, -1, 1))
    packed = R.add(R.multiply(R.astype(product, FLOAT), scale), node[2])
    heads, present = _with_past(node, split_projection(node, node.emit(packed)), 8)
    return [attention_output(node, heads, masks_of(node, 5, heads)), present]


@onnx_op("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(node: OnnxNode) -> list[Any]:
    count = int(node.attr("num_heads"))
    start: Dim = 0
    results = []
    for x in _query_key_value(node, count):
        if len(sizes(node, x)) == 3:
            width = sizes(node, x)[2]
            if node.has(3):
                x = R.add(x, R.strided_slice(node[3], [0], (start,), (start + width,)))
                start = start + width
            x = split(node, node.emit(x), count)
        results.append(x)
    heads = HeadLayout(*results)
    if node.has(6) and node.has(7):
        heads = heads.after(node, node[6], node[7])
    masks = masks_of(node, 4, heads)
    if node.has(5):
        masks.append(node[5])
    return [attention_output(node, heads, masks), heads.key, heads.value]


def _query_key_value(node: OnnxNode, count: int) -> list[Expr]:
    """Returns queries, keys and values; packed operands interleave them per head."""
    if node.rank() == 5:
        return _unpack(node, node[0], 3)
    if node.has(1) and node.rank(1) == 5:
        return [node[0], *_unpack(node, node[1], 2)]
    if not node.has(1) or not node.has(2):
        node.fail("missing operand 1 ('key') or 2 ('value')")
    return [node[0], node[1], node[2]]


def _unpack(node: OnnxNode, x: Expr, parts: int) -> list[Expr]:
    """Splits a packed operand of shape (batch, length, heads, parts, channels)."""
    batch, length, heads, _, width = sizes(node, x)
    results: list[Expr] = []
    for k in range(parts):
        cut = R.strided_slice(x, [3], (k,), (k + 1,))
        results.append(node.emit(reshape_to(cut, (batch, length, heads * width))))
    return results


@onnx_op("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(node: OnnxNode) -> Expr:
    """Applies rotary embedding to pairs of channels."""
    _reject_attributes(node, "is_packed_batching")
    is_flat = node.rank() == 3
    rotary_size = node.attr("rotary_embedding_dim", 0) or 2 * node.static_dims(2)[1]
    x = node[0]
    if is_flat:
        batch, length, width = node.dims()
        head: Dim = rotary_size
        if node.attr("rotary_embedding_dim", 0):
            head_size = dims.exact_quotient(width, int(node.attr("num_heads")))
            if head_size is None:
                node.fail(
                    f"expected a number of channels that num_heads={node.attr('num_heads')} "
                    f"divides, found {dims.text(width)}"
                )
            head = head_size
        heads_apart = reshape_to(x, (batch, length, width // head, head))
        x = node.emit(R.permute_dims(heads_apart, [0, 2, 1, 3]))
    batch, _, length, _ = sizes(node, x)
    tables = [_angles(node, index, batch, length) for index in (2, 3)]
    result = rotate(node, x, rotary_size, tables, node.flag("interleaved"))
    if not is_flat:
        return result
    return reshape_to(R.permute_dims(result, [0, 2, 1, 3]), node.dims())


def rotate(
    node: OnnxNode, x: Expr, rotary_size: int, tables: Sequence[Expr], is_interleaved: bool
) -> Expr:
    """Applies rotary embedding to the first channels of each head; `tables` are cosines and
    sines."""
    head = sizes(node, x)[3]
    cosine, sine = tables
    half = rotary_size // 2
    if is_interleaved:
        first, second = [R.strided_slice(x, [3], (k,), (rotary_size,), (2,)) for k in (0, 1)]
    else:
        first, second = [R.strided_slice(x, [3], (k,), (k + half,)) for k in (0, half)]
    first, second = node.emit(first), node.emit(second)
    real = R.subtract(R.multiply(first, cosine), R.multiply(second, sine))
    imaginary = R.add(R.multiply(second, cosine), R.multiply(first, sine))
    if is_interleaved:
        pairs = R.stack(Tuple((real, imaginary)), axis=4)
        result = reshape_to(pairs, (*sizes(node, x)[:3], rotary_size))
    else:
        result = R.concat(Tuple((real, imaginary)), axis=3)
    if dims.equal(head, rotary_size) is True:
        return result
    rest = R.strided_slice(x, [3], (rotary_size,), (head,))
    return R.concat(Tuple((result, rest)), axis=3)


def _angles(node: OnnxNode, index: int, batch: Dim, length: Dim) -> Expr:
    """Returns the table rows (cosines or sines) at all positions, for every head."""
    width = node.dims(index)[1]
    if node.rank(1) == 1:
        first = reshape_to(R.astype(node[1], "int64"), (1,))
        rows = R.take(node[index], R.add(first, index_range(length)), axis=0)
        return node.emit(reshape_to(rows, (1, 1, length, width)))
    rows = R.take(node[index], R.astype(node[1], "int64"), axis=0)
    return node.emit(reshape_to(rows, (batch, 1, length, width)))

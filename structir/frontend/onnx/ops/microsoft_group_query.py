"""Mapping of ONNX Runtime's GroupQueryAttention: heads share keys, and a cache holds the past."""

from __future__ import annotations

from typing import Any

import attrs

from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.ops.microsoft_attention import head_scale, rotate, sizes, split
from structir.frontend.onnx.registry import MICROSOFT, R, onnx_op
from structir.frontend.onnx.sizes import sizes_of
from structir.frontend.scalars import constant, index_range, number, reshape_to, size_number
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Expr, Tuple

LOWEST = -3.4028235e38
PAST_KEY, PAST_VALUE, LAST_POSITIONS, TOTAL, COSINES, SINES, POSITIONS, BIAS, SINK = range(3, 12)


@attrs.frozen(eq=False)
class CacheLayout:
    """The layout of the cache: the sizes of a call, and the length of the past of each item."""

    batch: Dim
    length: Dim
    capacity: Dim
    past: Expr  # (batch, 1)

    def key_positions(self) -> Expr:
        """Returns the position of each cached key."""
        return reshape_to(index_range(self.capacity), (1, self.capacity))

    def query_positions(self) -> Expr:
        """Returns the position of each query, of shape (batch, length)."""
        return R.add(self.past, reshape_to(index_range(self.length), (1, self.length)))


@onnx_op("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(node: OnnxNode) -> list[Any]:
    _check_attributes(node)
    heads, groups = int(node.attr("num_heads")), int(node.attr("kv_num_heads"))
    if groups < 1 or heads % groups:
        node.fail(f"num_heads: expected a multiple of kv_num_heads = {groups}, found {heads}")
    query, key, value = _projections(node, heads, groups)
    layout = _layout(node)
    if node.flag("do_rotary"):
        query, key = [_rotate(node, x, layout) for x in (query, key)]
    keys = _updated_cache(node, key, PAST_KEY, layout)
    values = _updated_cache(node, value, PAST_VALUE, layout)
    width = sizes(node, query)[3]
    grouped_query = reshape_to(
        query, (layout.batch, groups, heads // groups * layout.length, width)
    )
    scores = R.matmul(grouped_query, R.permute_dims(keys, [0, 1, 3, 2]))
    scores = R.multiply(scores, head_scale(node, width, node.dtype()))
    full_shape = (layout.batch, heads, layout.length, layout.capacity)
    weights = _weights(node, node.emit(reshape_to(scores, full_shape)), layout)
    grouped_shape = (layout.batch, groups, heads // groups * layout.length, layout.capacity)
    product = R.matmul(reshape_to(weights, grouped_shape), values)
    result = reshape_to(product, (layout.batch, heads, layout.length, width))
    merged = R.permute_dims(result, [0, 2, 1, 3])
    return [reshape_to(merged, (layout.batch, layout.length, heads * width)), keys, values]


def _check_attributes(node: OnnxNode) -> None:
    """Raises `DiagnosticError` for a quantized cache and for the output of the scores."""
    for name in ("k_quant_type", "v_quant_type"):
        node.choice(name, ("NONE",), "NONE")
    if node.attr("qk_output", 0) or node.is_used(3):
        node.fail("qk_output: expected 0 and no output 3, found the scores as an output")


def _projections(node: OnnxNode, heads: int, groups: int) -> list[Expr]:
    """Returns queries, keys and values of shape (batch, heads, length, channels)."""
    if node.has(1) and node.has(2):
        counts = (heads, groups, groups)
        return [split(node, node[k], count) for k, count in enumerate(counts)]
    channels, parts = node.dims()[2], heads + 2 * groups
    if isinstance(channels, int) and channels % parts:
        node.fail(f"packed query: expected a multiple of {parts} channels, found {channels}")
    width = dims.floordiv(channels, parts)
    results, start = [], 0 * width
    for count in (heads, groups, groups):
        end = start + count * width
        results.append(
            split(node, node.emit(R.strided_slice(node[0], [2], (start,), (end,))), count)
        )
        start = end
    return results


def _layout(node: OnnxNode) -> CacheLayout:
    batch, length, _ = node.dims()
    (total,) = sizes_of(node, TOTAL)
    capacity = dims.dim_max(total, node.dims(PAST_KEY)[2]) if node.has(PAST_KEY) else total
    last = reshape_to(R.astype(node[LAST_POSITIONS], "int64"), (batch, 1))
    past = R.subtract(R.add(last, constant(1)), size_number(length))
    if dims.equal(total, length) is not False:  # a first prompt has no past, but may have padding
        is_first = R.equal(size_number(total), size_number(length))
        past = R.where(is_first, constant(0), past)
    return CacheLayout(batch, length, capacity, node.emit(past))


def _rotate(node: OnnxNode, x: Expr, layout: CacheLayout) -> Expr:
    """Applies rotary embedding at the positions of the queries or keys."""
    positions = node.get(POSITIONS)
    rows = layout.query_positions() if positions is None else R.astype(positions, "int64")
    rows = node.emit(rows)
    half = node.static_dims(COSINES)[1]
    shape = (layout.batch, 1, layout.length, half)
    tables = [node.emit(reshape_to(R.take(node[k], rows, axis=0), shape)) for k in (COSINES, SINES)]
    return node.emit(rotate(node, x, 2 * half, tables, node.flag("rotary_interleaved")))


def _updated_cache(node: OnnxNode, new: Expr, index: int, layout: CacheLayout) -> Expr:
    """Returns the cache of shape (batch, heads, capacity, channels): the past of each item, then
    its new entries, then zeros."""
    entries, old_length = new, 0 * layout.length
    if node.has(index):
        old_length = node.dims(index)[2]
        entries = R.concat(Tuple((node[index], new)), axis=2)
    positions = layout.key_positions()
    offset = R.subtract(positions, layout.past)
    last = size_number(old_length + layout.length - 1)
    is_past = R.less(offset, constant(0))
    rows = R.where(is_past, positions, R.add(offset, size_number(old_length)))
    rows = reshape_to(R.minimum(rows, last), (layout.batch, layout.capacity, 1))
    by_position = node.emit(R.permute_dims(entries, [0, 2, 1, 3]))
    picked = R.permute_dims(R.gather_nd(by_position, node.emit(rows), batch_dims=1), [0, 2, 1, 3])
    is_present = R.less(offset, size_number(layout.length))
    mask = reshape_to(is_present, (layout.batch, 1, layout.capacity, 1))
    return node.emit(R.where(mask, picked, number(0, node.dtype())))


def _weights(node: OnnxNode, scores: Expr, layout: CacheLayout) -> Expr:
    """Returns the softmax of masked scores."""
    dtype, cap = node.dtype(), node.attr("softcap", 0.0)
    if cap:
        limit = number(cap, dtype)
        scores = R.multiply(R.tanh(R.divide(scores, limit)), limit)
    if node.has(BIAS):
        scores = R.add(scores, node[BIAS])
    queries = reshape_to(layout.query_positions(), (layout.batch, 1, layout.length, 1))
    keys = reshape_to(layout.key_positions(), (1, 1, 1, layout.capacity))
    queries = node.emit(queries)
    is_masked = R.greater(keys, queries)
    window = node.attr("local_window_size", -1)
    if window > 0:
        first = R.subtract(queries, constant(window - 1))
        is_masked = R.logical_or(is_masked, R.less(keys, first))
    lowest = -65504.0 if dtype == "float16" else LOWEST
    masked = node.emit(R.where(is_masked, number(lowest, dtype), scores))
    if not node.has(SINK) and not node.attr("smooth_softmax", 0) > 0:
        return R.nn.softmax(masked, axis=3)
    heads = sizes(node, masked)[1]
    sink = reshape_to(node[SINK], (1, heads, 1, 1)) if node.has(SINK) else number(0, dtype)
    column = R.broadcast_to(sink, (layout.batch, heads, layout.length, 1))
    extended = R.nn.softmax(R.concat(Tuple((masked, column)), axis=3), axis=3)
    return R.strided_slice(extended, [3], (0,), (layout.capacity,))

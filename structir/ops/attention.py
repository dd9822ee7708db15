"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any, Literal

from structir.ir.dims import Dim
from structir.ir.dtype import NARROW_FLOATS, numpy_dtype
from structir.ir.expr import Expr, PrimValue
from structir.lazy import lazy_module
from structir.opdef.attributes import Number
from structir.opdef.call_view import CallView, ResolvedSignature
from structir.opdef.define import op
from structir.opdef.examples import ExactValues, f32, i32
from structir.ops.broadcast import greater_equal, multiply, where
from structir.ops.contract import matmul
from structir.ops.create import ones_like, tril, triu, zeros_like
from structir.ops.elementwise import astype, rsqrt
from structir.ops.layout import permute_dims
from structir.ops.normalise import softmax

np = lazy_module("numpy")
ml_dtypes = lazy_module("ml_dtypes")
Array = Any
Mask = Literal["TopLeft", "BottomRight"]
BEFORE_HEADS = (0, 2, 1, 3)
# The exponential of a masked score underflows to 0, and a query without keys gets finite weights.
MASKED_SCORE = -1e30


@op(
    "query[b, s, h, d], key[b, u, h, d], value[b, u, h, e],"
    " bias[~b : b, ~h : h, ~s : s, ~u : u] or 0 -> y[b, s, h, e]",
    name="nn.attention",
    parts=True,
)
def attention(
    query: Expr,
    key: Expr,
    value: Expr,
    bias: Expr | None = None,
    scale: Number | None = None,
    causal_mask: Mask | None = None,
    window_size: int | None = None,
) -> Expr:
    """Computes softmax(query @ key^T * scale + bias) @ value for each head.

    A causal mask hides the keys after each query. It aligns the first query with the first key
    (`TopLeft`), or the last with the last (`BottomRight`). `window_size` limits each query to that
    many latest keys.
    """
    queries, keys, values = (permute_dims(operand, BEFORE_HEADS) for operand in (query, key, value))
    scores: Expr = matmul(queries, permute_dims(keys, (0, 1, 3, 2)))
    scores = multiply(scores, _scale(query, scale))
    scores = scores if bias is None else scores + bias
    if causal_mask is not None:
        scores = _apply_causal_mask(scores, causal_mask, window_size)
    return permute_dims(matmul(softmax(scores, axis=-1), values), BEFORE_HEADS)


def _scale(query: Expr, scale: float | None) -> Expr | float:
    """Returns the scale attribute, or 1 / sqrt(d) for queries of length d."""
    length: Dim = query.struct_info.dims[3]
    if scale is not None:
        return float(scale)
    if isinstance(length, int):
        return float(max(length, 1) ** -0.5)
    return rsqrt(astype(PrimValue(length), query.struct_info.dtype))


def _apply_causal_mask(scores: Expr, causal_mask: str, window_size: int | None) -> Expr:
    *_, queries, keys = scores.struct_info.dims
    offset = keys - queries if causal_mask == "BottomRight" else 0
    visible = tril(ones_like(scores), offset)
    if window_size is not None:
        visible = triu(visible, offset - window_size + 1)
    masked = zeros_like(scores) + masked_score(scores.struct_info.dtype)
    return where(greater_equal(visible, ones_like(scores)), scores, masked)


def masked_score(dtype: Any) -> float:
    """Returns a score of masked keys that is finite in a dtype."""
    if dtype not in NARROW_FLOATS:
        return MASKED_SCORE
    return max(MASKED_SCORE, float(ml_dtypes.finfo(numpy_dtype(dtype)).min))


def attention_var_len_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature of packed sequences: each head reads all queries, keys and values."""
    signature = (
        "queries[b, [s], h, [d]], keys[b, [u], h, [d]], values[b, [u], h, [e]],"
        " seqstart_q[[q]] @ int32, max_seqlen_q[] @ int32, seqstart_k[[r]] @ int32 or 0,"
        " max_seqlen_k[] @ int32 or 0 -> y[b, [s], h, [e]]"
    )
    mask = call["causal_mask"]
    return ResolvedSignature(
        signature, "", "", {"causal": mask is not None, "bottom_right": mask == "BottomRight"}
    )


@op(attention_var_len_signature, name="nn.attention_var_len")
def attention_var_len(
    queries: Expr,
    keys: Expr,
    values: Expr,
    seqstart_q: Expr,
    max_seqlen_q: Expr,
    seqstart_k: Expr | None = None,
    max_seqlen_k: Expr | None = None,
    scale: Number | None = None,
    causal_mask: Mask | None = None,
    window_size: int | None = None,
) -> Expr:
    """Computes attention within packed sequences, which start at `seqstart_q` and `seqstart_k`."""
    return queries


@attention_var_len.reference
def _(
    queries: Array,
    keys: Array,
    values: Array,
    starts: Array,
    longest: Array,
    key_starts: Array | None = None,
    longest_key: Array | None = None,
    scale: float | None = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> Array:
    key_starts = starts if key_starts is None else key_starts
    if len(starts) != len(key_starts):
        raise ValueError(
            f"seqstart_k: expected {len(starts)} offsets as in seqstart_q, found {len(key_starts)}"
        )
    for offsets, tensor in ((starts, queries), (key_starts, keys)):
        if np.any(np.diff(offsets) < 0) or np.any((offsets < 0) | (offsets > tensor.shape[1])):
            raise IndexError(
                "seqstart_q, seqstart_k: expected ascending offsets within axis 1, found others"
            )
    result = np.zeros((*queries.shape[:3], values.shape[3]), queries.dtype)
    wide = np.promote_types(queries.dtype, "float32")  # in which masked scores are finite
    queries, keys, values = (x.astype(wide, copy=False) for x in (queries, keys, values))
    scale = max(queries.shape[3], 1) ** -0.5 if scale is None else scale
    for k in range(len(starts) - 1):
        query_slice, key_slice = slice(*starts[k : k + 2]), slice(*key_starts[k : k + 2])
        scores = np.einsum("bshd,buhd->bhsu", queries[:, query_slice], keys[:, key_slice]) * scale
        hidden = _hidden_keys(scores.shape[2], scores.shape[3], causal_mask, window_size)
        scores = np.where(hidden, MASKED_SCORE, scores)
        exponentials = np.exp(scores - scores.max(-1, keepdims=True, initial=MASKED_SCORE))
        weights = exponentials / exponentials.sum(-1, keepdims=True)
        result[:, query_slice] = np.einsum("bhsu,buhe->bshe", weights, values[:, key_slice])
    return result


@attention_var_len.kernel("cpu")
def _(
    queries: Array,
    keys: Array,
    values: Array,
    seqstart_q: Array,
    seqstart_k: Array | None,
    y: Array,
    scale: float | None,
    causal: bool,
    bottom_right: bool,
    window_size: int | None,
) -> None:
    factor = 1.0 / math.sqrt(max(queries.shape[1], 1)) if scale is None else scale
    total = np.empty(y.shape[1], np.float64)
    y[:] = 0
    for k in range(seqstart_q.shape[0] - 1):
        query_start, query_end = seqstart_q[k], seqstart_q[k + 1]
        starts = seqstart_q if seqstart_k is None else seqstart_k
        key_start, key_end = starts[k], starts[k + 1]
        if not (
            0 <= query_start <= query_end <= queries.shape[0]
            and 0 <= key_start <= key_end <= keys.shape[0]
        ):
            raise IndexError(
                "seqstart_q, seqstart_k: expected ascending offsets within axis 1, found others"
            )
        offset = (key_end - key_start) - (query_end - query_start) if bottom_right else 0
        for i in range(query_end - query_start):
            low = 0 if window_size is None or not causal else max(i + offset - window_size + 1, 0)
            high = min(i + offset + 1, key_end - key_start) if causal else key_end - key_start
            running_max, weights = MASKED_SCORE, 0.0
            total[:] = 0
            no_keys = low >= high  # a query without visible keys attends uniformly to all keys
            for j in range(0 if no_keys else low, key_end - key_start if no_keys else high):
                score = 0.0
                for n in range(queries.shape[1]):
                    score += queries[query_start + i, n] * keys[key_start + j, n]
                score = MASKED_SCORE if no_keys else score * factor
                if score > running_max:
                    rescale = math.exp(running_max - score)
                    weights *= rescale
                    for n in range(y.shape[1]):
                        total[n] *= rescale
                    running_max = score
                weight = math.exp(score - running_max)
                weights += weight
                for n in range(y.shape[1]):
                    total[n] += weight * values[key_start + j, n]
            for n in range(y.shape[1] if weights > 0 else 0):
                y[query_start + i, n] = total[n] / weights


def _hidden_keys(
    queries: int, keys: int, causal_mask: str | None, window_size: int | None
) -> Array:
    """Computes the mask of keys hidden from each query."""
    offset = keys - queries if causal_mask == "BottomRight" else 0
    distance = np.arange(keys) - np.arange(queries)[:, None] - offset
    if causal_mask is None:
        return np.zeros_like(distance, "bool")
    return (distance > 0) if window_size is None else (distance > 0) | (distance <= -window_size)


attention_var_len.non_differentiable(
    "the sequence bounds depend on data; apply `R.nn.attention` to each sequence"
)
attention.example(f32[2, 3, 2, 4], f32[2, 5, 2, 4], f32[2, 5, 2, 6])
attention.example(f32[2, 3, 2, 4], f32[2, 5, 2, 4], f32[2, 5, 2, 6], f32[2, 1, 3, 5], scale=0.5)
attention.example(
    f32[1, 3, 2, 4], f32[1, 5, 2, 4], f32[1, 5, 2, 4], causal_mask="BottomRight", window_size=2
)
attention_var_len.example(
    *[f32[1, 5, 2, 4]] * 3,
    ExactValues("int32", (0, 2, 5)),
    i32[()],
    causal_mask="TopLeft",
    window_size=2,
)

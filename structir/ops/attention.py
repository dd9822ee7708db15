"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any, Literal

from structir.ir.dims import Dim
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
Array = Any
Mask = Literal["TopLeft", "BottomRight"]
BEFORE_HEADS = (0, 2, 1, 3)
FAR_BELOW = -1e30  # a score that no weight is left of; the row of a query without keys stays finite


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

    A causal mask hides the keys after each query; positions are aligned at the first or at the last
    query. A window limits each query to that many latest keys.
    """
    queries, keys, values = (permute_dims(part, BEFORE_HEADS) for part in (query, key, value))
    scores: Expr = matmul(queries, permute_dims(keys, (0, 1, 3, 2)))
    scores = multiply(scores, _scale(query, scale))
    scores = scores if bias is None else scores + bias
    if causal_mask is not None:
        scores = _masked(scores, causal_mask, window_size)
    return permute_dims(matmul(softmax(scores, axis=-1), values), BEFORE_HEADS)


def _scale(query: Expr, scale: float | None) -> Expr | float:
    """Returns the scale attribute, or 1 / sqrt(d) for queries of length d."""
    length: Dim = query.struct_info.dims[3]
    if scale is not None:
        return float(scale)
    if isinstance(length, int):
        return float(max(length, 1) ** -0.5)
    return rsqrt(astype(PrimValue(length), query.struct_info.dtype))


def _masked(scores: Expr, causal_mask: str, window_size: int | None) -> Expr:
    *_, queries, keys = scores.struct_info.dims
    offset = keys - queries if causal_mask == "BottomRight" else 0
    seen = tril(ones_like(scores), offset)
    if window_size is not None:
        seen = triu(seen, offset - window_size + 1)
    return where(greater_equal(seen, ones_like(scores)), scores, zeros_like(scores) + FAR_BELOW)


def packed(given: CallView) -> ResolvedSignature:
    """Returns the signature of packed sequences: a head reads queries, keys and values of all."""
    line = (
        "queries[b, [s], h, [d]], keys[b, [u], h, [d]], values[b, [u], h, [e]],"
        " seqstart_q[[q]] @ int32, max_seqlen_q[] @ int32, seqstart_k[[r]] @ int32 or 0,"
        " max_seqlen_k[] @ int32 or 0 -> y[b, [s], h, [e]]"
    )
    mask = given["causal_mask"]
    return ResolvedSignature(
        line, "", "", {"causal": mask is not None, "last": mask == "BottomRight"}
    )


@op(packed, name="nn.attention_var_len")
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
    """Computes attention within packed sequences, which start at `seqstart`."""
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
        raise ValueError("seqstart_q and seqstart_k begin another number of sequences")
    for places, part in ((starts, queries), (key_starts, keys)):
        if np.any(np.diff(places) < 0) or np.any((places < 0) | (places > part.shape[1])):
            raise IndexError("a sequence is not inside")
    made = np.zeros((*queries.shape[:3], values.shape[3]), queries.dtype)
    scale = max(queries.shape[3], 1) ** -0.5 if scale is None else scale
    for k in range(len(starts) - 1):
        own, other = slice(*starts[k : k + 2]), slice(*key_starts[k : k + 2])
        scores = np.einsum("bshd,buhd->bhsu", queries[:, own], keys[:, other]) * scale
        hidden = _hidden(scores.shape[2], scores.shape[3], causal_mask, window_size)
        scores = np.where(hidden, FAR_BELOW, scores)
        powers = np.exp(scores - scores.max(-1, keepdims=True, initial=FAR_BELOW))
        weights = powers / powers.sum(-1, keepdims=True)
        made[:, own] = np.einsum("bhsu,buhe->bshe", weights, values[:, other])
    return made


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
    last: bool,
    window_size: int | None,
) -> None:
    factor = 1.0 / math.sqrt(max(queries.shape[1], 1)) if scale is None else scale
    total = np.empty(y.shape[1], np.float64)
    y[:] = 0
    for k in range(seqstart_q.shape[0] - 1):
        first, end = seqstart_q[k], seqstart_q[k + 1]
        starts = seqstart_q if seqstart_k is None else seqstart_k
        start, stop = starts[k], starts[k + 1]
        if not (0 <= first <= end <= queries.shape[0] and 0 <= start <= stop <= keys.shape[0]):
            raise IndexError("a sequence is not inside")
        offset = (stop - start) - (end - first) if last else 0
        for i in range(end - first):
            low = 0 if window_size is None or not causal else max(i + offset - window_size + 1, 0)
            high = min(i + offset + 1, stop - start) if causal else stop - start
            most, weights = FAR_BELOW, 0.0
            total[:] = 0
            none = low >= high  # a query that sees nothing sees all alike
            for j in range(0 if none else low, stop - start if none else high):
                score = 0.0
                for n in range(queries.shape[1]):
                    score += queries[first + i, n] * keys[start + j, n]
                score = FAR_BELOW if none else score * factor
                if score > most:
                    fading = math.exp(most - score)
                    weights *= fading
                    total *= fading
                    most = score
                weight = math.exp(score - most)
                weights += weight
                for n in range(y.shape[1]):
                    total[n] += weight * values[start + j, n]
            for n in range(y.shape[1] if weights > 0 else 0):
                y[first + i, n] = total[n] / weights


def _hidden(queries: int, keys: int, causal_mask: str | None, window_size: int | None) -> Array:
    """Computes the mask of keys hidden from each query."""
    offset = keys - queries if causal_mask == "BottomRight" else 0
    place = np.arange(keys) - np.arange(queries)[:, None] - offset
    if causal_mask is None:
        return np.zeros_like(place, "bool")
    return (place > 0) if window_size is None else (place > 0) | (place <= -window_size)


attention_var_len.non_differentiable(
    "where sequences begin is read from data: take the attention of each by itself"
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

"""Attention of queries to keys and values."""

from __future__ import annotations

import math
from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.nn.activation import logsumexp, softmax
from structir.numpy import contraction, creation, elementwise
from structir.ops.attention import masked_score
from structir.tracing.array import TracedArray, operand
from structir.tracing.context import traced

IMPLEMENTATIONS = (None, "xla", "cudnn")  # hints of JAX without effect


@traced
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """Returns attention of (batch, length, heads, head size) arrays, or without the batch axis.

    The lengths (batch,) limit the queries, whose results are 0 beyond, and the keys. A query sees
    `local_window_size` keys before and after it. With `return_residual`, also the logarithms of the
    sums of exponentials of scores, (batch, length, heads). `implementation` has no effect.
    """
    if implementation not in IMPLEMENTATIONS:
        message = "dot_product_attention: implementation: expected 'xla', 'cudnn' or None"
        raise DiagnosticError(Diagnostic(f"{message}, found {implementation!r}", code="E1107"))
    q, k, v = elementwise.real(query), elementwise.real(key), elementwise.real(value)
    if k.shape[-2] != q.shape[-2]:
        repeats = q.shape[-2] // k.shape[-2]
        k, v = k.repeat(repeats, -2), v.repeat(repeats, -2)
    q, k, v = (x.swapaxes(-3, -2) for x in (q, k, v))
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = contraction.matmul(q, k.swapaxes(-1, -2)) * factor
    if bias is not None:
        scores = scores + bias
    masks = [] if mask is None else [mask]
    if is_causal:
        masks.append(creation.tril(creation.ones(scores.shape[-2:], bool)))
    if local_window_size is not None:
        masks.append(_window(scores, local_window_size))
    if query_seq_lengths is not None:
        masks.append(_within(scores.shape[-2], query_seq_lengths)[..., None, :, None])
    if key_value_seq_lengths is not None:
        masks.append(_within(scores.shape[-1], key_value_seq_lengths)[..., None, None, :])
    for visible in masks:
        scores = elementwise.where(visible, scores, masked_score(scores.dtype_name))
    result = contraction.matmul(softmax(scores), v).swapaxes(-3, -2)
    if query_seq_lengths is not None:
        inside = _within(result.shape[-3], query_seq_lengths)[..., None, None]
        result = elementwise.where(inside, result, 0)
    if not return_residual:
        return result
    return result, logsumexp(scores, axis=-1).swapaxes(-2, -1)


def _window(scores: TracedArray, sizes: int | tuple[int, int]) -> TracedArray:
    """Returns which keys are near a query."""
    before, after = (sizes, sizes) if isinstance(sizes, int) else sizes
    queries, keys = (creation.arange(size) for size in scores.shape[-2:])
    distance = keys[None, :] - queries[:, None]
    return (distance >= -before) & (distance <= after)


def _within(count: Any, lengths: Any) -> TracedArray:
    """Returns which positions are below lengths."""
    return creation.arange(count) < operand(lengths)[..., None]

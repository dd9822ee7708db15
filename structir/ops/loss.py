"""Losses."""

from __future__ import annotations

from typing import Literal

from structir.ir.expr import Expr, PrimValue
from structir.opdef.call_view import CallView
from structir.opdef.define import op
from structir.opdef.examples import f32, i64
from structir.ops.broadcast import divide, multiply, not_equal, where
from structir.ops.create import full_like, zeros_like
from structir.ops.elementwise import astype, negative
from structir.ops.indexing import gather_elements, take
from structir.ops.layout import expand_dims, squeeze
from structir.ops.reduce import sum_

Reduction = Literal["none", "sum", "mean"]


def nll_loss_signature(call: CallView) -> str:
    """Returns the signature with one target class per prediction; `reduction` gives the rank."""
    rank = call.rank("predictions")
    if rank == 0:
        call.reject("predictions: expected an axis of classes, found a scalar", None, "E0304")
    if rank == 1:
        return "predictions[c] @ F, targets[] @ I, weights[c] @ F or 1 -> out[] @ F"
    result = "n, *s" if call["reduction"] == "none" else ""
    reads = "predictions[n, c, *s] @ F, targets[n, *s] @ I, weights[c] @ F or 1"
    return f"{reads} -> out[{result}] @ F"


@op(nll_loss_signature, name="nn.nll_loss", parts=True)
def nll_loss(
    predictions: Expr,
    targets: Expr,
    weights: Expr | None = None,
    reduction: Reduction = "mean",
    ignore_index: int = -100,
) -> Expr:
    """Computes the negative weighted log-likelihood of target classes, without ignored targets."""
    wide_targets = astype(targets, "int64")  # a narrow dtype may not hold ignore_index
    valid = not_equal(wide_targets, full_like(wide_targets, ignore_index))
    classes = where(valid, targets, zeros_like(targets))
    axis = 0 if predictions.struct_info.ndim == 1 else 1
    picked = squeeze(gather_elements(predictions, expand_dims(classes, axis), axis), axis)
    weight = astype(valid, predictions.struct_info.dtype)
    if weights is not None:
        weight = multiply(weight, take(weights, classes, axis=0))
    losses = negative(multiply(picked, weight))
    if reduction == "none":
        return losses
    total = sum_(losses)
    return total if reduction == "sum" else divide(total, sum_(weight))


@op(
    "predictions[*s] @ F, labels[*s] @ F -> out[] @ F",
    name="nn.cross_entropy_with_logits",
    parts=True,
)
def cross_entropy_with_logits(predictions: Expr, labels: Expr) -> Expr:
    """Computes -sum(predictions * labels) / batch size, for log predictions."""
    total = negative(sum_(multiply(predictions, labels)))
    sizes = predictions.struct_info.dims
    if len(sizes) < 2:
        return total
    return divide(total, astype(PrimValue(sizes[0]), predictions.struct_info.dtype))


nll_loss.example(f32[3, 5, 2], i64[3, 2].below(5), f32[5])
nll_loss.example(f32[3, 5], i64[3].below(5), reduction="none", ignore_index=2)
cross_entropy_with_logits.example(f32[3, 4], f32[3, 4])

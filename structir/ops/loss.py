"""Losses."""

from __future__ import annotations

from typing import Any, Literal

from structir.errors import Diagnostic, StructInfoError
from structir.ir.expr import Expr, PrimValue
from structir.ir.struct_info import known_dims
from structir.lazy import lazy_module
from structir.opdef.call_view import CallView
from structir.opdef.define import op
from structir.opdef.examples import ExactValues, f32, i64
from structir.ops.broadcast import divide, multiply, not_equal
from structir.ops.create import full_like
from structir.ops.elementwise import astype, negative
from structir.ops.indexing import gather_elements, take
from structir.ops.layout import expand_dims, squeeze
from structir.ops.reduce import mean, sum_

np = lazy_module("numpy")
Array = Any

Reduction = Literal["none", "sum", "mean"]
OUT_OF_RANGE = "targets: expected indices of the classes, found one out of range"


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


@op("targets[*s] @ I, count[] @ int64 -> classes[*s] @ int64", name="nn.class_indices")
def class_indices(targets: Array, count: Array, ignore_index: int = -100) -> Array:
    """Checks that targets are below the number of classes; ignored targets become class 0.

    A call fails where another target is negative or at least `count`.
    """
    return targets


@class_indices.reference
def _(targets: Array, count: Array, ignore_index: int = -100) -> Array:
    wide = targets.astype("int64")  # a narrow dtype may not hold ignore_index
    classes = np.where(wide == ignore_index, 0, wide)
    if np.any((classes < 0) | (classes >= count)):
        raise IndexError(OUT_OF_RANGE)
    return classes


class_indices.rejects_values(OUT_OF_RANGE, shown="nn.nll_loss")


@class_indices.kernel("cpu")
def _(targets: int, count: int, classes: Array, ignore_index: int) -> None:
    index = np.int64(targets)
    if index == ignore_index:
        index = 0
    if index < 0 or index >= count:
        raise IndexError(OUT_OF_RANGE)
    classes[()] = index


class_indices.non_differentiable("class indices are integers")


def class_axis(predictions: Expr) -> int:
    """Returns the axis of the classes."""
    return 0 if predictions.struct_info.ndim == 1 else 1


def classes_and_weights(
    predictions: Expr, targets: Expr, weights: Expr | None, ignore_index: int
) -> tuple[Expr, Expr]:
    """Returns the checked class of each target and its weight, which is 0 for ignored targets."""
    count = astype(PrimValue(predictions.struct_info.dims[class_axis(predictions)]), "int64")
    classes = class_indices(targets, count, ignore_index=ignore_index)
    wide_targets = astype(targets, "int64")  # a narrow dtype may not hold ignore_index
    valid = not_equal(wide_targets, full_like(wide_targets, ignore_index))
    weight = astype(valid, predictions.struct_info.dtype)
    if weights is not None:
        weight = multiply(weight, take(weights, classes, axis=0))
    return classes, weight


@op(nll_loss_signature, name="nn.nll_loss", parts=True)
def nll_loss(
    predictions: Expr,
    targets: Expr,
    weights: Expr | None = None,
    reduction: Reduction = "mean",
    ignore_index: int = -100,
) -> Expr:
    """Computes the negative weighted log-likelihood of target classes, without ignored targets.

    A target that is not a class is an error, unless it is `ignore_index`.
    """
    classes, weight = classes_and_weights(predictions, targets, weights, ignore_index)
    axis = class_axis(predictions)
    picked = squeeze(gather_elements(predictions, expand_dims(classes, axis), axis), axis)
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
def cross_entropy_with_logits(predictions: Any, labels: Expr) -> Expr:
    """Computes -sum(predictions * labels) / batch size, for log predictions."""
    products, info = multiply(predictions, labels), predictions.struct_info
    total = negative(sum_(products))
    if info.ndim is None:
        message = f"cross_entropy_with_logits: expected predictions of known rank, found {info}"
        hint = "state the rank: `R.match_cast(predictions, R.Tensor(ndim=2))`"
        raise StructInfoError(Diagnostic(message, hint=hint))
    if info.ndim < 2:
        return total
    sizes = known_dims(info)
    if sizes is None:  # a mean over the batch needs no size
        return negative(sum_(mean(products, axis=[0])))
    return divide(total, astype(PrimValue(sizes[0]), info.dtype))


class_indices.example(i64[3].below(5), ExactValues("int64", 5))
nll_loss.example(f32[3, 5, 2], i64[3, 2].below(5), f32[5])
nll_loss.example(f32[3, 5], i64[3].below(5), reduction="none", ignore_index=2)
cross_entropy_with_logits.example(f32[3, 4], f32[3, 4])

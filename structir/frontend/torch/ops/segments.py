"""Mapping of reductions of consecutive rows."""

from __future__ import annotations

import math
from typing import Any

from structir.frontend.scalars import number
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import as_tensor, cast
from structir.ir.dtype import is_float
from structir.ir.expr import Expr
from structir.script import R

REDUCTIONS: dict[str, tuple[Any, Any, float]] = {  # op, combination with the initial value, neutral
    "sum": (R.segment_sum, R.add, 0.0),
    "mean": (R.segment_sum, R.add, 0.0),
    "prod": (R.segment_prod, R.multiply, 1.0),
    "max": (R.segment_max, R.maximum, -math.inf),
    "min": (R.segment_min, R.minimum, math.inf),
}


@torch_op("segment_reduce")
def segment_reduce(node: FxNode) -> Expr:
    """Builds a reduction of the rows of each segment along the first axis."""
    if node.plain("axis", 0) != 0 or node.get("indices") is not None:
        node.fail("expected segments of axis 0 with `lengths` or `offsets`")
    starts, limits = _bounds(node)
    reduction = node.arg("reduce")
    op, combine, neutral = REDUCTIONS[reduction]
    dtype, x = node.out_dtype(), node["data"]
    result = node.emit(op(x, starts, limits))
    rank = len(node.dims_of(result))
    lengths = node.emit(R.subtract(limits, starts))
    lengths = node.emit(R.expand_dims(lengths, list(range(1, rank))) if rank > 1 else lengths)
    initial = node.arg("initial", None)
    start = as_tensor(neutral if initial is None else initial, dtype)
    result = node.emit(combine(result, start) if initial is not None else result)
    is_empty = R.equal(lengths, number(0, "int64"))
    if reduction == "mean":
        mean = R.divide(result, cast(lengths, dtype))
        empty = as_tensor(math.nan if initial is None else initial, dtype)
        return R.where(is_empty, empty, mean)
    return R.where(is_empty, start, result) if is_float(dtype) else result


def _bounds(node: FxNode) -> tuple[Expr, Expr]:
    """Returns the first row of each segment, and the row after its last one."""
    name = "offsets" if node.get("offsets") is not None else "lengths"
    if node.rank(name) != 1:
        node.fail(f"{name}: expected one axis, found {node.rank(name)}")
    values = node.emit(cast(node[name], "int64"))
    (count,) = node.dims_of(values)
    if name == "lengths":
        limits = node.emit(R.cumsum(values, axis=0))
        return node.emit(R.subtract(limits, values)), limits
    starts = node.emit(R.strided_slice(values, [0], [0], [count - 1]))
    return starts, node.emit(R.strided_slice(values, [0], [1], [count]))

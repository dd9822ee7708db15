"""Products whose rows are in groups of given sizes."""

from __future__ import annotations

from typing import Any

from structir.numpy import creation, reductions
from structir.script import R
from structir.tracing.array import TracedArray, cast, emit, expression, of_rank, promoted
from structir.tracing.context import traced


@traced
def ragged_dot(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    group_offset: Any = None,
) -> TracedArray:
    """Returns each row of lhs (m, k) times the matrix of its group, of rhs (groups, k, n).

    The first `group_sizes[0]` rows are of the group 0, and so on; rows behind the last group are 0.
    `precision` is a hint.
    """
    (rows, matrices), _ = promoted(
        of_rank(lhs, "ragged_dot: lhs", 2), of_rank(rhs, "ragged_dot: rhs", 3)
    )
    if preferred_element_type is not None:
        rows, matrices = (cast(x, preferred_element_type) for x in (rows, matrices))
    ends = reductions.cumsum(cast(of_rank(group_sizes, "ragged_dot: group_sizes", 1), "int64"), 0)
    places = creation.arange(rows.shape[0], dtype="int64")
    groups = emit(R.bucketize(expression(places), expression(ends), right=True))
    return emit(R.grouped_matmul(expression(rows), expression(matrices), expression(groups)))

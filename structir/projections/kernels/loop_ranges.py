"""Ranges of loop variables: the iteration number, its bound, and the value of the variable."""

from __future__ import annotations

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.kernel import For
from structir.projections.kernels.affine_scalars import Values, as_index
from structir.projections.kernels.index_bounds import Ranges, bounds
from structir.projections.spec import Condition


@attrs.frozen
class LoopRange:
    """The iterations of a loop: `index` counts from 0 to `extent` exclusive, where the conditions
    hold. Without an index, the number of iterations depends on data. `value` is the variable.
    """

    index: Sym | None
    extent: Dim
    value: Dim | None
    conditions: tuple[Condition, ...] = ()
    covers: bool = False  # whether every index below the extent is an iteration


UNKNOWN = LoopRange(None, 0, None)


def loop_range(loop: For, values: Values, index: Sym, ranges: Ranges) -> LoopRange:
    """Returns the range of a loop; the extent does not depend on index variables."""
    start, stop = as_index(loop.start, values), as_index(loop.stop, values)
    if start is None or stop is None:
        return UNKNOWN
    number = dims.as_dim(index)
    if not (dims.syms(start) | dims.syms(stop)) & ranges.keys():
        distance = stop - start if loop.step > 0 else start - stop
        extent = dims.dim_max(dims.ceildiv(distance, abs(loop.step)), 0)
        return LoopRange(index, extent, start + number * loop.step, (), True)
    return _varying_range(start, stop, loop.step, index, ranges)


def _varying_range(start: Dim, stop: Dim, step: int, index: Sym, ranges: Ranges) -> LoopRange:
    """Returns the range of a loop whose bounds depend on outer loops."""
    first, last = bounds(start, ranges), bounds(stop, ranges)
    if first is None or last is None:
        return UNKNOWN
    distance = last[1] - first[0] if step > 0 else first[1] - last[0]
    number = dims.as_dim(index)
    if abs(step) == 1:
        return _counted_from_bound(start, stop, step, (first, last), index)
    extent = dims.dim_max(dims.ceildiv(distance, abs(step)), 0)
    value = start + number * step
    return LoopRange(index, extent, value, (Condition("lt" if step > 0 else "gt", value, stop),))


def _counted_from_bound(
    start: Dim, stop: Dim, step: int, reach: tuple[tuple[Dim, Dim], tuple[Dim, Dim]], index: Sym
) -> LoopRange:
    """Returns a range of step 1 or -1, counted from a bound of its start.

    The value of the variable is then free of outer loops, so that accesses remain products.
    """
    (first, last), number = reach, dims.as_dim(index)
    if step > 0:
        extent = dims.dim_max(last[1] - first[0], 0)
        value = first[0] + number
        conditions = (Condition("ge", value, start), Condition("lt", value, stop))
    else:
        extent = dims.dim_max(first[1] - last[0], 0)
        value = first[1] - number
        conditions = (Condition("le", value, start), Condition("gt", value, stop))
    return LoopRange(index, extent, value, tuple([c for c in conditions if c.left != c.right]))

"""Stores that write every element of an array in one execution of a loop."""

from __future__ import annotations

from collections.abc import Iterator

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Var
from structir.ir.kernel import Local
from structir.projections.kernels.definitions import Definition, KernelLoop, array_shape
from structir.projections.kernels.flow_state import FlowState
from structir.projections.kernels.index_bounds import Ranges, bounds


def covering_stores(
    state: FlowState, loop: KernelLoop, depth: int, ranges: Ranges
) -> Iterator[Definition]:
    """Yields the stores that write all elements of their array in each execution of a loop."""
    for target, definitions in state.definitions.items():
        if isinstance(target, Local):
            continue
        for reaching in definitions:
            if loop in reaching.definition.loops and _covers(reaching.definition, depth, ranges):
                yield reaching.definition
                break


def _covers(definition: Definition, depth: int, ranges: Ranges) -> bool:
    """Whether a store writes all elements in each run of its loop at a depth."""
    loops = definition.loops[depth:]
    if definition.certain > depth or not all(loop.covers for loop in loops):
        return False
    assert isinstance(definition.target, Var)
    shape = array_shape(definition.target)
    used: set[Sym] = set()
    for index, size in zip(definition.indices, shape, strict=True):
        index_var = _covering_index(index, size, {loop.index for loop in loops} - used, ranges)
        if index_var is None and not (index == 0 and size == 1):
            return False
        used |= {index_var} if index_var is not None else set()
    repeated = [loop for loop in loops if loop.index not in used]
    return all(dims.at_least(loop.extent, 1) for loop in repeated)


def _covering_index(
    index: Dim | None, size: Dim, free: set[Sym | None], ranges: Ranges
) -> Sym | None:
    """Returns the loop index whose iterations give all positions of an axis; None if there is
    none.
    """
    if index is None:
        return None
    index_vars = dims.syms(index) & ranges.keys()
    if len(index_vars) != 1 or not index_vars <= free:
        return None
    (index_var,) = index_vars
    form = dims.linear(index, index_var)
    reach = bounds(index, ranges)
    if form is None or form[0] not in (1, -1) or reach is None:
        return None
    full = dims.equal(reach[0], 0) and dims.equal(reach[1], size - 1)
    return index_var if full else None

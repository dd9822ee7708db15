"""Nodes of the data flow of a kernel: loops, definitions of scalars and elements, and uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from structir.errors import Span
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Var
from structir.ir.kernel import Local
from structir.projections.spec import Condition

Target = Var | Local  # an array, or a scalar
Indices = tuple[Dim | None, ...]  # of an element; None for an index read from data


@attrs.define(eq=False)
class KernelLoop:
    """A loop around statements; its iterations are numbered from 0 by `index`.

    The index is None if the trip count depends on data. `jump_uses` are the uses that control a
    `break`.
    """

    index: Sym | None
    extent: Dim = 0  # an upper bound of the trip count
    conditions: tuple[Condition, ...] = ()  # that hold in each iteration
    jump_uses: list[Use] = attrs.Factory(list)
    covers: bool = False  # whether the loop runs for all of `range(extent)`
    jumps: bool = False  # whether it has a `break`


@attrs.frozen
class Reaching:
    """A definition that reaches a use.

    Both are in the same iterations of the first `shared` common loops (None: of all). If `ordered`,
    the definition is from an earlier iteration of the next loop, else from any iteration.
    """

    definition: Definition
    shared: int | None = None
    ordered: bool = False


@attrs.define(eq=False)
class Use:
    """A read of a scalar or of an element, with the definitions that reach it."""

    target: Target
    loops: tuple[KernelLoop, ...]
    indices: Indices = ()
    conditions: tuple[Condition, ...] = ()  # that hold where it is evaluated
    reaching: frozenset[Reaching] = frozenset()
    free_from: int | None = None  # the loops from this depth on may be in any iteration
    until_here: bool = False  # but not in a later one of the first of them
    span: Span | None = None


@attrs.define(eq=False)
class Definition:
    """An assignment of a scalar, or the store of an element."""

    target: Target
    loops: tuple[KernelLoop, ...]
    indices: Indices = ()
    uses: tuple[Use, ...] = ()
    conditions: tuple[Condition, ...] = ()
    certain: int = 0  # it executes in each iteration of the loops from this depth on
    span: Span | None = None


@attrs.frozen(eq=False)
class KernelFlow:
    """The data flow of a kernel: the definitions of each result at its end.

    In a GPU kernel each use of an array sees all its `stores`.
    """

    results: tuple[frozenset[Reaching], ...]
    extents: Mapping[Sym, Dim]
    stores: Mapping[Target, frozenset[Reaching]]
    notes: tuple[DataIndex, ...]
    loops: Mapping[tuple[int, ...], LoopValue]  # by the position of the statement


@attrs.frozen
class LoopValue:
    """The number of an iteration, and the variable of a loop in it."""

    index: Sym
    value: Dim
    step: int


@attrs.frozen
class DataIndex:
    """An access of an array at an index that depends on data, which requires the whole axis."""

    array: Var = attrs.field(eq=id)
    axis: int
    span: Span | None
    writes: bool = False


def array_shape(array: Var) -> tuple[Dim, ...]:
    """Returns the shape of an array of a kernel."""
    info: Any = array.struct_info
    shape: tuple[Dim, ...] = tuple(info.dims)
    return shape


def common_loops(first: Sequence[KernelLoop], second: Sequence[KernelLoop]) -> int:
    """Returns the number of outer loops that two statements share."""
    count = 0
    for a, b in zip(first, second, strict=False):
        if a is not b:
            break
        count += 1
    return count

"""Ops over whole axes: a plain Python function over arrays, called at each point."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs

from structir.errors import Diagnostic
from structir.ir import dims
from structir.ir.dims import Dim, Poly
from structir.ir.kernel import computed_in
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import NoKernelError, axis_dim, load
from structir.loops.program.routine import BufferPoint, Routine
from structir.loops.program.stage import Stage, routine_stages
from structir.projections.spec import AccessIndex, IndexSpec, Statement
from structir.targets.cpu.functions import routine_source

HELD = (bool, int, float, type(None))  # kinds of constants in a kernel's source


@attrs.frozen
class Named:
    """The names that a routine's parameters may have: operands, results, other numbers."""

    operands: Mapping[str, BufferPoint | None]
    results: Mapping[str, BufferPoint]
    numbers: Mapping[str, Any]
    axes: Mapping[str, Dim]  # of the points: the index along each axis

    def argument(self, name: str) -> Any:
        """Returns the argument for a parameter of this name."""
        if name in self.operands:
            return self.operands[name]
        if name in self.results:
            return self.results[name]
        return self.axes[name] if name in self.axes else _number(self.numbers.get(name))


def _number(value: Any) -> Any:
    parts = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(part, (*HELD, Poly)) for part in parts):
        raise NoKernelError(f"a kernel cannot be told {value!r}")
    return value


def whole_axis_stages(
    function: Callable[..., Any],
    spec: IndexSpec,
    operands: Sequence[Buffer],
    numbers: Mapping[str, Any],
    origin: str,
    rejection: Diagnostic | None = None,
) -> tuple[list[Buffer], list[Stage]]:
    """Returns the results of a spec whose values a function computes, and the stages that compute
    them.

    If elements are stored in another dtype than that of the computation, the function gets copies.
    """
    if len(spec.statements) != 1 or spec.statements[0].reduce or spec.statements[0].conditions:
        raise NoKernelError("the line does not say at which points a routine is called")
    (clause,) = spec.statements
    results = [Buffer(r.dims, _known(r.dtype)) for r in spec.results]
    seen = {b: _computed(b) for b in (*operands, *results)}
    before = [_copy(b, seen[b]) for b in dict.fromkeys(operands) if seen[b] is not b]
    after = [_copy(seen[b], b) for b in results if seen[b] is not b]
    reads = {r.name: _place(seen[operands[r.operand]], r.entries, clause) for r in clause.reads}
    writes = {
        spec.results[w.result].name: _place(seen[results[w.result]], w.entries, clause)
        for w in clause.writes
    }
    named = Named(reads, writes, numbers, {x.name: axis_dim(x) for x in clause.parallel})
    parameters = inspect.signature(function).parameters
    arguments = tuple([named.argument(name) for name in parameters])
    source = routine_source(function).split("\n")
    routine = Routine(
        function,
        arguments,
        {x: spec.extents[x] for x in clause.parallel},
        frozenset([place.buffer for place in writes.values()]),
        any([line.lstrip().startswith("raise ") for line in source]),
        rejection,
    )
    outs = [seen[b] for b in results]
    new_stages = routine_stages([place.buffer for place in reads.values()], outs, routine, origin)
    return results, [*before, *new_stages, *after]


def _known(dtype: str | None) -> str:
    if dtype is None:
        raise NoKernelError("the dtype is only known at run time")
    return dtype


def _computed(buffer: Buffer) -> Buffer:
    """Returns the buffer, or one of the computation dtype of its elements."""
    dtype = computed_in(buffer.dtype)
    return buffer if dtype == buffer.dtype else Buffer(buffer.shape, dtype)


def _copy(source: Buffer, target: Buffer) -> Stage:
    axes = [dims.as_sym(dims.sym(f"x{i}")) for i in range(len(source.shape))]
    known = [a for a in axes if a is not None]
    at = tuple([axis_dim(a) for a in known])
    extents = dict(zip(known, source.shape, strict=True))
    return Stage(target, tuple(known), (), extents, load(source, at), at)


def _place(buffer: Buffer, entries: Iterable[AccessIndex], clause: Statement) -> BufferPoint:
    sizes: list[Dim | None] = []
    for entry in entries:
        if entry.data is not None or not entry.inside:
            raise NoKernelError("an index is read from data, or may leave its axis")
        letter = dims.as_sym(entry.dim)
        whole = letter in clause.whole
        if not whole and dims.syms(entry.dim) & frozenset(clause.whole):
            raise NoKernelError("an axis is seen whole in part")
        sizes.append(None if whole else entry.dim)
    return BufferPoint(buffer, tuple(sizes))

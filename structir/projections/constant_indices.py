"""Indices read from constants: a constant index reads its element, not the whole axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Call, Constant, Tuple
from structir.lazy import lazy_module
from structir.projections.access import LoopSpace, load
from structir.projections.scalar_expr import LoopIndex, ScalarExpr, operands_of, walk
from structir.projections.spec import AccessIndex, IndexSpec, Read, Statement, Table, Write
from structir.projections.values import EvaluationPoint, evaluate

np = lazy_module("numpy")

LARGEST = 1 << 16  # of the constants that are evaluated, in elements


def with_constant_indices(
    spec: IndexSpec, call: Call, sizes: Mapping[Sym, int] | None = None
) -> IndexSpec:
    """Returns a spec whose indices from constant operands are dims or tables.

    `sizes` gives the symbolic dims that the indices depend on.
    """
    constants = {
        k: data
        for k, info in enumerate(spec.operands)
        if (data := _constant_at(call, info.path)) is not None
    }
    if not constants:
        return spec
    rewriter = _IndexRewriter(spec, constants, sizes or {})
    statements = tuple([rewriter.statement(each) for each in spec.statements])
    return attrs.evolve(spec, statements=statements)


def _constant_at(call: Call, path: Sequence[int]) -> Any:
    """Returns the elements of a constant integer operand; None for any other one."""
    operand: Any = call.args[path[0]]
    for index in path[1:]:
        operand = operand.fields[index] if isinstance(operand, Tuple) else None
    if not isinstance(operand, Constant) or operand.data.dtype.kind not in "iu":
        return None
    return operand.data if operand.data.size <= LARGEST else None


@attrs.frozen(eq=False)
class _IndexRewriter:
    """The rewriting of the indices of one spec."""

    spec: IndexSpec
    constants: Mapping[int, Any]
    sizes: Mapping[Sym, int]

    def statement(self, statement: Statement) -> Statement:
        """Returns a statement with its constant indices as dims or tables."""
        reads = tuple(
            [Read(r.name, r.operand, self.entries(statement, r.entries)) for r in statement.reads]
        )
        writes = tuple(
            [
                Write(w.result, self.entries(statement, w.entries), w.value, w.unique)
                for w in statement.writes
            ]
        )
        return attrs.evolve(statement, reads=reads, writes=writes)

    def entries(
        self, statement: Statement, entries: tuple[AccessIndex, ...]
    ) -> tuple[AccessIndex, ...]:
        """Returns the indices of an access."""
        return tuple([self.entry(statement, entry) for entry in entries])

    def entry(self, statement: Statement, entry: AccessIndex) -> AccessIndex:
        """Returns an index: a dim, or a table of its values, if it depends on constants only."""
        if entry.data is None:
            return entry
        values = self.values(statement, entry.data)
        if values is None:
            return entry
        index_vars, numbers = values
        index = _as_dim(index_vars, numbers)
        if index is not None:
            return AccessIndex(index, entry.size, False)
        table = Table(index_vars, tuple(numbers.shape), tuple(numbers.reshape(-1).tolist()))
        return AccessIndex(entry.index, entry.size, False, table=table)

    def values(self, statement: Statement, data: ScalarExpr) -> tuple[tuple[Sym, ...], Any] | None:
        """Returns the values of an index over the index variables that it depends on."""
        reads = [statement.read(name) for name in operands_of(data)]
        if any(r.operand not in self.constants for r in reads):
            return None
        if any(e.data is not None for r in reads for e in r.entries):
            return None
        used = {n.index_var for n in walk(data) if isinstance(n, LoopIndex)}
        used |= {s for r in reads for e in r.entries for s in e.index_vars}
        every = (*statement.parallel, *statement.reduce)
        index_vars = tuple([s for s in every if s in used])
        extents = {s: self.number(self.spec.extents[s]) for s in index_vars}
        if None in extents.values() or prod(n or 0 for n in extents.values()) > LARGEST:
            return None
        space = LoopSpace(index_vars, extents, self.sizes)  # type: ignore[arg-type]
        loaded = {r.name: load(self.constants[r.operand], r, space, {}).values for r in reads}
        try:
            result = evaluate(data, EvaluationPoint(loaded, space.grid, self.sizes))
        except KeyError:  # a size without a number
            return None
        return index_vars, np.broadcast_to(np.asarray(result, "int64"), space.shape)

    def number(self, dim: Dim) -> int | None:
        """Returns the value of a dim; None if it is unknown."""
        if isinstance(dim, int):
            return dim
        known = dims.syms(dim) <= self.sizes.keys()
        return dims.evaluate(dim, dict(self.sizes)) if known else None


def _as_dim(index_vars: tuple[Sym, ...], values: Any) -> Dim | None:
    """Returns values as an affine index; None if they are none."""
    if values.size == 0:
        return 0
    first = int(values.reshape(-1)[0])
    index: Dim = first
    grid = np.full(values.shape, first)
    for axis, index_var in enumerate(index_vars):
        if values.shape[axis] > 1:
            second = tuple([1 if k == axis else 0 for k in range(values.ndim)])
            step = int(values[second]) - first
            index = index + dims.as_dim(index_var) * step
            ends = [-1 if k == axis else 1 for k in range(values.ndim)]
            grid = grid + step * np.arange(values.shape[axis]).reshape(ends)
    return index if (grid == values).all() else None

"""Instantiates statements at concrete sizes, as loop nests over numbered index variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.projections.affine_forms import AffineForm, FormFunction, form_of, values
from structir.projections.index_sets import ConcreteAccess, ConcreteIndex, LoopNest
from structir.projections.position_sets import EMPTY, PositionSet, only
from structir.projections.preimage import Constraint
from structir.projections.scalar_expr import ScalarExpr
from structir.projections.spec import AccessIndex, Condition, Statement, Table
from structir.system.locks import cached_property

Sizes = Mapping[Sym, int]

BOUNDS = {
    "lt": (None, 0),
    "le": (None, 1),
    "gt": (1, None),
    "ge": (0, None),
    "eq": (0, 1),
    "ne": (None, None),
}


@attrs.frozen(eq=False)
class LoopNestBuilder:
    """A builder of the loop nest of a statement at concrete sizes."""

    extents: Mapping[Sym, Dim]
    sizes: Sizes
    numbers: Mapping[Sym, int]

    @cached_property
    def constants(self) -> dict[Sym, Dim]:
        """The sizes, and 0 for the index variables of extent 1."""
        unit_vars = {s: 0 for s in self.numbers if self.number(self.extents[s]) == 1}
        return {**self.sizes, **unit_vars}

    def loops(self, statement: Statement) -> LoopNest:
        """Returns the loop nest of a statement."""
        full = tuple([PositionSet(0, self.number(self.extents[s])) for s in self.numbers])
        return LoopNest(
            full,
            {r.name: self.access(r.entries) for r in statement.reads},
            tuple([self.access(w.entries) for w in statement.writes]),
            tuple([self.condition(c, full) for c in statement.conditions]),
            statement.exact,
        )

    def number(self, dim: Dim) -> int:
        """Returns the value of a dim."""
        return dim if isinstance(dim, int) else dims.evaluate(dim, dict(self.sizes))

    def access(self, entries: tuple[AccessIndex, ...]) -> ConcreteAccess:
        """Returns a read or a write at concrete sizes."""
        return ConcreteAccess(tuple([self.axis(entry) for entry in entries]))

    def axis(self, entry: AccessIndex) -> ConcreteIndex:
        """Returns an index expression at concrete sizes."""
        size = self.number(entry.size)
        if entry.loose and size == 1:
            return ConcreteIndex(size, form_of(0, self.numbers), True)
        if entry.table is not None:
            return ConcreteIndex(size, self.table(entry.table), False)
        if entry.whole or isinstance(entry.index, ScalarExpr):
            return ConcreteIndex(size, None, True, entry.whole)
        return ConcreteIndex(size, self.form(entry.index), entry.inside)

    def table(self, table: Table) -> AffineForm:
        """Returns an index read from a constant, as a function of its linear position."""
        position: Dim = 0
        for index_var, extent in zip(table.index_vars, table.extents, strict=True):
            position = position * extent + dims.as_dim(index_var)
        node = FormFunction("table", (self.form(position),), table.values)
        form = AffineForm(0, ((1, node),))
        index_vars = form.index_vars
        return form._replace(repeats=len(set(index_vars)) < len(index_vars))

    def form(self, dim: Dim) -> AffineForm:
        """Returns an index expression over the numbered index variables."""
        return form_of(dims.substitute(dim, self.constants), self.numbers)

    def condition(self, condition: Condition, full: Sequence[PositionSet]) -> Constraint:
        """Returns a comparison as the difference of its sides and the set of permitted values."""
        difference = self.form(condition.left - condition.right)
        if not all(full):
            return difference, EMPTY
        low, high = BOUNDS[condition.op]
        reach = values(difference, full)
        start = reach.start if low is None else low
        stop = reach.stop if high is None else high
        target = PositionSet(start, stop) if start < stop else EMPTY
        return difference, target.without(only(0)) if condition.op == "ne" else target


def loops_of(statement: Statement, extents: Mapping[Sym, Dim], sizes: Sizes) -> LoopNest:
    """Returns the loop nest of a statement at concrete sizes."""
    return LoopNestBuilder(extents, sizes, number_index_vars(statement)).loops(statement)


def number_index_vars(statement: Statement) -> dict[Sym, int]:
    """Returns the number of each index variable in the loop nest of a statement."""
    index_vars = (*statement.parallel, *statement.reduce, *statement.whole)
    return {index_var: k for k, index_var in enumerate(index_vars)}

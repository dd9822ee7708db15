"""The kernel of an argmax or argmin: the extreme of each result's terms, then its first index.

Both passes are loops without branches, which LLVM vectorizes. Contiguous terms are read twice; if
results are contiguous, a block of them is in scratch memory and updated once per term.
"""

from __future__ import annotations

from structir.ir.dims import Dim
from structir.ir.dtype import is_float
from structir.ir.kernel import Apply, Assign, Element, Local, Scalar, computed_in
from structir.loops.fusion.group import Group
from structir.loops.kernel.as_kernel import PICKING, ShownKernel
from structir.loops.kernel.column_blocks import ZERO, ColumnBlockWriter, Statements
from structir.loops.lower.as_scalar import accumulated, literal, stated
from structir.loops.program.access import address_of, joined_axes
from structir.loops.program.expression import Load, axis_dim
from structir.projections.monoid import MONOIDS

BLOCK = 1024  # results at once: their extremes and indices fit into the first cache


def is_extremum(group: Group) -> bool:
    """Whether a group is an argmax or argmin of elements."""
    stage = group.stages[0]
    is_plain = stage.unique and stage.exists is None and not stage.guards
    is_plain = is_plain and type(stage.body) is Load and stage.body.dtype != "bool"
    return is_plain and stage.monoid in PICKING


def extremum_nodes(group: Group, name: str) -> ShownKernel:
    """Returns the nodes of an argmax or argmin of elements."""
    return _ExtremumWriter(group, name).kernel()


class _ExtremumWriter(ColumnBlockWriter):
    block = BLOCK

    def __init__(self, group: Group, name: str) -> None:
        super().__init__(group, name)
        stage = self.stage
        assert isinstance(stage.body, Load)
        read = address_of(stage.body.buffer, stage.body.entries, stage.axes)
        written = address_of(stage.out, stage.write, stage.axes)
        rows = joined_axes(stage.parallel, stage.extents, [read, written])
        terms = joined_axes(stage.reduce, stage.extents, [read])
        along_terms = read.coefficient(terms[-1][-1]) == 1
        along_rows = bool(rows) and read.coefficient(rows[-1][-1]) == 1
        vector = rows.pop() if along_rows and not along_terms else ()
        self.set_axes(rows, vector, terms)
        self.dtype, self.monoid = computed_in(stage.body.dtype), MONOIDS[stage.monoid or ""]
        if vector:
            self.totals = self.columns_array("totals", self.dtype)
            self.places = self.columns_array("places", "int64")

    def write_block(self, into: Statements) -> None:
        if not self.vector:
            self._pick(into)
            return
        identity = literal(self.monoid.identity(self.dtype), self.dtype)

        def start(place: Scalar, body: Statements) -> None:
            total, at = self._totals(place)
            body += [Assign(total, identity), Assign(at, ZERO)]

        self.over_columns(into, start)
        self.over_axes(self.terms, into, lambda body: self.over_columns(body, self._update))
        self.over_columns(
            into, lambda place, body: self._keep(self.stage, self._totals(place)[1], body)
        )

    def _totals(self, place: Scalar) -> tuple[Element, Element]:
        """Returns the extreme of a column so far, and its index."""
        total = Element(self.totals, (place,), self.dtype)
        return total, Element(self.places, (place,), "int64")

    def _update(self, place: Scalar, body: Statements) -> None:
        """Writes a term of a column: it replaces the extreme if it is better."""
        total, at = self.scalars.local("total", self.dtype), self.scalars.local("at", "int64")
        better, elements = self.scalars.local("better", "bool"), self._totals(place)
        value = self._term(body)
        body += [Assign(total, elements[0]), Assign(at, elements[1])]
        test: Scalar = Apply(PICKING[self.stage.monoid or ""], (value, total), "bool")
        if is_float(self.dtype):
            known = Apply("eq", (total, total), "bool")
            test = _either(test, Apply("and", (_is_nan(value), known), "bool"))
        body.append(Assign(better, test))
        for element, new, old in zip(elements, (value, self._index()), (total, at), strict=True):
            body.append(Assign(element, Apply("select", (better, new, old), element.dtype)))

    def _pick(self, into: Statements) -> None:
        """Writes one result: its extreme, then the first index that has it; NaN is the extreme."""
        total, at = self.scalars.local("total", self.dtype), self.scalars.local("at", "int64")
        (count,) = self.integers(self.extent(self.stage.reduce))

        def extend(body: Statements) -> None:
            body.append(Assign(total, accumulated(self.monoid.combine, total, self._term(body))))

        def search(body: Statements) -> None:
            value = self._term(body)
            holds: Scalar = Apply("eq", (value, total), "bool")
            if is_float(self.dtype):
                holds = _either(holds, _is_nan(value))
            selected = Apply("select", (holds, self._index(), count), "int64")
            body.append(Assign(at, Apply("min", (at, selected), "int64")))

        into.append(Assign(total, stated(literal(self.monoid.identity(self.dtype), self.dtype))))
        self.over_axes(self.terms, into, extend)
        into.append(Assign(at, stated(count)))
        self.over_axes(self.terms, into, search)
        self._keep(self.stage, at, into)

    def _term(self, body: Statements) -> Local:
        """Writes the load of a term."""
        term = self.scalars.local("term", self.dtype)
        body.append(Assign(term, self.scalars.value(self.stage.body, body)))
        return term

    def _index(self) -> Scalar:
        """Returns the linear index of a term in the order of the reduced axes."""
        index: Dim = 0
        for axes in self.terms:
            index = index * self.extent(axes) + axis_dim(axes[-1])
        return self.scalars.index(index)


def _is_nan(value: Scalar) -> Scalar:
    return Apply("ne", (value, value), "bool")


def _either(one: Scalar, other: Scalar) -> Scalar:
    return Apply("or", (one, other), "bool")

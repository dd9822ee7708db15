"""Elements of the results of index specs, as terms over elements of the operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.dtype import is_float
from structir.projections.scalar_expr import ScalarExpr
from structir.projections.spec import AccessIndex, IndexSpec, Read, Statement, Write
from structir.projections.values import SETTLED, widened
from structir.proving.data_index import as_index
from structir.proving.scalars import ScalarTerms, converted
from structir.proving.terms import ApplyTerm, Fold, NonNegative, ScalarTerm, SizeTerm, identity_of
from structir.proving.values import Index, TensorValue, Undecided, number

COMPARISONS: dict[str, Callable[[Dim, Dim], list[Dim]]] = {
    "lt": lambda a, b: [b - a - 1],
    "le": lambda a, b: [b - a],
    "gt": lambda a, b: [a - b - 1],
    "ge": lambda a, b: [a - b],
    "eq": lambda a, b: [a - b, b - a],
}
ORDERED = ("argmax", "argmin")


@attrs.define(eq=False)
class Point:
    """The point at which an element is computed: index variables and elements of operands."""

    at: dict[Sym, Dim]
    reads: dict[str, ScalarTerm]
    conditions: list[ScalarTerm]  # under which the point exists


@attrs.frozen(eq=False)
class SpecTerms:
    """The results of a spec for operands; `size_of` maps the dims of the spec."""

    spec: IndexSpec
    operands: Sequence[TensorValue]
    size_of: Callable[[Dim], Dim]
    exact: bool = False

    def results(self) -> tuple[TensorValue, ...]:
        """Returns the results as tensors."""
        return tuple([self._result(k) for k in range(len(self.spec.results))])

    def _result(self, number: int) -> TensorValue:
        info = self.spec.results[number]
        sizes = tuple([self.size_of(d) for d in info.dims])
        if info.dtype is None:
            raise Undecided("a result has an unknown dtype")
        return TensorValue(sizes, info.dtype, lambda index: self.element(number, index))

    def element(self, result: int, index: Index) -> ScalarTerm:
        """Returns an element of a result: the last write of it."""
        info = self.spec.results[result]
        dtype = info.dtype or "float32"
        value: ScalarTerm = number(self.spec.fill, dtype)
        if self.spec.base is not None:
            base = self.operands[self.spec.base]
            rank = len(base.dims)
            at = [
                0 if n == 1 else i
                for n, i in zip(base.dims, index[len(index) - rank :], strict=True)
            ]
            value = converted(base.at(tuple(at)), dtype)
        for statement in self.spec.statements:
            for write in statement.writes:
                if write.result == result:
                    value = self._written(statement, write, index, value)
        return value

    def _written(
        self, statement: Statement, write: Write, index: Index, before: ScalarTerm
    ) -> ScalarTerm:
        if write.value is None:
            raise Undecided("a body is no scalar expression")
        names = {v: dims.as_dim(Sym(v.name)) for v in statement.parallel}
        names |= {v: dims.as_dim(Sym(f"{v.name}'")) for v in statement.reduce}
        units = {v: 0 for v in names if self._extent(v) == 1}
        point = Point({**names, **units}, {}, [])
        if not write.unique:
            return self._scattered(statement, write, index, before, point)
        for entry, position in zip(write.entries, index, strict=True):
            self._solve(entry, position, point, statement)
        if any([self._extent(v) != 1 and point.at[v] is names[v] for v in statement.parallel]):
            raise Undecided("a result is written at indices that do not determine its loops")
        self._read(statement, point)
        value = self._value(statement, write, point)
        return value if not point.conditions else _where(point.conditions, value, before)

    def _extent(self, index_var: Sym) -> Dim:
        return self.size_of(self.spec.extents[index_var])

    def _dim(self, dim: Dim, point: Point) -> Dim:
        return dims.substitute(self.size_of(dim), point.at)

    # ---- writes

    def _solve(self, entry: AccessIndex, position: Dim, point: Point, statement: Statement) -> None:
        """Solves the index of a write for its index variables; adds conditions."""
        if entry.data is not None or entry.loose:
            raise Undecided("a result is written at indices that are data")
        index = self._dim(entry.index, Point({v: d for v, d in point.at.items() if d == 0}, {}, []))  # type: ignore[arg-type]
        variables = [v for v in statement.parallel if v in dims.syms(index)]
        terms, offset = {}, index
        for v in variables:
            linear = dims.linear(offset, v)
            if linear is None or any([v in dims.syms(linear[0]) for v in variables]):
                raise Undecided("a result is written at an index that is not affine")
            terms[v], offset = linear
        quotient = position - offset
        if len(terms) == 1 and list(terms.values()) == [-1]:
            terms, quotient = {v: 1 for v in terms}, -quotient
            offset = 1  # unless the range is whole in reverse
        self._digits(terms, quotient, offset, self.size_of(entry.size), point)

    def _digits(
        self, terms: dict[Sym, Dim], quotient: Dim, offset: Dim, size: Dim, point: Point
    ) -> None:
        """Solves `sum of factor * variable = quotient` as a number with mixed radix."""
        stride: Dim = 1
        order: list[Sym] = []
        start = quotient
        if terms and not any([factor == 1 for factor in terms.values()]):
            stride = min(terms.values(), key=lambda f: f if isinstance(f, int) else 1 << 60)
            remainder = dims.floormod(quotient, stride)
            point.conditions.append(NonNegative(-remainder))
            terms = {v: dims.exact_quotient(f, stride) or 0 for v, f in terms.items()}
            quotient, stride = dims.floordiv(quotient, stride), 1
        while len(order) < len(terms):
            following = [v for v, f in terms.items() if v not in order and f == stride]
            if not following:
                raise Undecided("a result is written at an index without a mixed radix")
            sizes = {v: self._extent(v) for v in following}
            order.append(min(following, key=lambda v: sizes[v] != 1))
            stride = stride * sizes[order[-1]]
        is_whole = quotient is start and offset == 0 and dims.equal(stride, size) is True
        if not is_whole:
            point.conditions += [NonNegative(quotient), NonNegative(stride - 1 - quotient)]
        for position, v in enumerate(order):
            extent = self._extent(v)
            last = position == len(order) - 1
            point.at[v] = quotient if last else dims.floormod(quotient, extent)
            quotient = quotient if last else dims.floordiv(quotient, extent)

    def _scattered(
        self, statement: Statement, write: Write, index: Index, before: ScalarTerm, point: Point
    ) -> ScalarTerm:
        """Returns the sum of the points that write an element."""
        if statement.monoid != "sum" or statement.reduce:
            raise Undecided("several points write one element")
        self._read(statement, point)
        dtype = before.dtype
        value = converted(self._scalar(write.value, point, dtype), dtype)
        for entry, position in zip(write.entries, index, strict=True):
            at = self._index(entry, point)
            point.conditions += [NonNegative(at - position), NonNegative(position - at)]
        loops = tuple(
            [
                (_symbol(point.at[v]), self._extent(v))
                for v in statement.parallel
                if point.at[v] != 0
            ]
        )
        body = _where(point.conditions, value, number(0, dtype))
        return ApplyTerm("add", (before, Fold("sum", loops, body, dtype)), dtype)

    # ---- reads and values

    def _read(self, statement: Statement, point: Point) -> None:
        for condition in statement.conditions:
            if condition.op not in COMPARISONS:
                raise Undecided(f"a condition with {condition.op}")
            sides = self._dim(condition.left, point), self._dim(condition.right, point)
            point.conditions += [NonNegative(d) for d in COMPARISONS[condition.op](*sides)]
        for read in sorted(
            statement.reads, key=lambda r: any([e.data is not None for e in r.entries])
        ):
            point.reads[read.name] = self._element(read, point)

    def _element(self, read: Read, point: Point) -> ScalarTerm:
        index = []
        for entry in read.entries:
            at = self._index(entry, point)
            size = self.size_of(entry.size)
            if not entry.inside:
                point.conditions += [NonNegative(at), NonNegative(size - 1 - at)]
            index.append(0 if size == 1 else at)
        return self.operands[read.operand].at(tuple(index))

    def _index(self, entry: AccessIndex, point: Point) -> Dim:
        if entry.data is not None:
            return as_index(self._scalars(point).typed(entry.data)[0])
        if entry.whole:
            raise Undecided("a body receives whole axes")
        return self._dim(entry.dim, point)

    def _scalars(self, point: Point) -> ScalarTerms:
        return ScalarTerms(point.reads, lambda dim: self._dim(dim, point), self.exact)

    def _scalar(self, value: ScalarExpr | None, point: Point, dtype: str) -> ScalarTerm:
        """Returns a value; one of literals and sizes in the dtype of the result."""
        assert value is not None
        term, kind = self._scalars(point).typed(value)
        return converted(term, dtype, weak=True) if kind in SETTLED else term

    def _value(self, statement: Statement, write: Write, point: Point) -> ScalarTerm:
        dtype = self.spec.results[write.result].dtype or "float32"
        monoid = statement.monoid
        if not statement.reduce and monoid not in ORDERED:
            return converted(self._scalar(write.value, point, dtype), dtype)
        if monoid in ("sum", "prod"):
            for name, term in point.reads.items():
                if widened(term.dtype, dtype):
                    point.reads[name] = converted(term, dtype)
        value = self._scalar(write.value, point, dtype)
        if value.dtype == dtype == "bool" and monoid in ("sum", "prod"):
            monoid = {"sum": "any", "prod": "all"}[monoid]  # a count that is not 0
        if value.dtype == "bool" and monoid in ("sum", "prod"):
            value = converted(value, "int64")
        if monoid in ("any", "all") and value.dtype != "bool":
            value = ApplyTerm("ne", (value, number(0, value.dtype)), "bool")
        loops = [(v, self._extent(v)) for v in statement.reduce]
        bound = tuple([(_symbol(point.at[v]), e) for v, e in loops if point.at[v] != 0])
        conditions = point.conditions[:]
        inner = {v for v, _ in bound}
        body, outside = value, [c for c in conditions if not c.free & inner]
        own = [c for c in conditions if c.free & inner]
        point.conditions[:] = outside
        if own and monoid in ("mean", *ORDERED):
            raise Undecided(f"a {monoid} over part of its range")
        kind = "sum" if monoid == "mean" else monoid or "sum"
        if own:
            body = _where(own, value, identity_of(kind, value.dtype))
        if monoid in ORDERED:
            return converted(Fold(kind, bound, body, "int64"), dtype)
        total: ScalarTerm = Fold(kind, bound, body, value.dtype)
        if monoid == "mean":
            if not is_float(value.dtype):
                raise Undecided("a mean of integers")
            count = prod([e for _, e in loops], start=1)
            total = ApplyTerm("div", (total, SizeTerm(count, value.dtype)), value.dtype)
        return converted(total, dtype)


def _where(
    conditions: Sequence[ScalarTerm], value: ScalarTerm, otherwise: ScalarTerm
) -> ScalarTerm:
    """Returns a value where all conditions hold."""
    for condition in reversed(conditions):
        value = ApplyTerm("select", (condition, value, otherwise), value.dtype)
    return value


def _symbol(dim: Dim) -> Sym:
    symbol = dims.as_sym(dim)
    assert symbol is not None, "an index variable of a reduction"
    return symbol

"""Index specs: which elements of its operands each point of an op's loop space reads, and which it
writes.

An `IndexSpec` is a list of clauses over letters. A *letter* is a `Sym` that stands for the position
along one loop axis, from 0 to its extent exclusive; extents are `Dim`s over the program's sizes.
Equal extents never make two letters one.

    lhs[~b, i, k], rhs[~b, k, j] -> out[~b, i, j]   reduce="sum"

is one clause with `parallel=(b_0, i, j)`, `reduce=(k,)`, the reads `lhs -> (b_0, i, k)` and `rhs ->
(b_0, k, j)` and the write `out -> (b_0, i, j)` of the value `mul(lhs, rhs)`. Running a clause
means, in any order of the points but where stated otherwise:

- a point exists if its `conditions` hold and every entry of every read and write lies inside its
  axis (entries that always do are marked `inside`); other points are *absent*: they add nothing,
  and without a reduction leave the result at `fill`;
- each read brings one element to the point, under the read's name; the writes' values are computed
  from these and the letters;
- with reduce letters, the values of the points that share the parallel letters are combined by the
  monoid;
- the write stores the value at its entries. Where points meet (`unique` is false) they combine by
  the clause's `monoid`, with the value stored before; without one the last point wins, in
  row-major order.

Results start at `fill`, or from the operand `base`. Clauses run in order, and together cover what
they cover: pieces of a concatenation are clauses that write at different offsets of one result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.projections.scalar_expr import (
    LoopIndex,
    OperandElement,
    Scalar,
    ScalarExpr,
    ScalarExtent,
    ScalarLiteral,
    walk,
)


@attrs.frozen
class AccessIndex:
    """The index of a read or a write along one axis of its tensor.

    `index` is a `Dim` over letters and sizes, or a `Point` over the names of other reads (an index
    read from data). A `loose` entry is 0 where the axis turns out to have size 1, and `index`
    elsewhere: broadcasting that cannot be decided before it runs. A `whole` entry takes the axis at
    once; its index is the letter.
    """

    index: Dim | ScalarExpr
    size: Dim  # of the axis
    inside: bool = True  # 0 <= index < size at every point of the loop space
    loose: bool = False
    whole: bool = False

    @property
    def data(self) -> ScalarExpr | None:
        """The index as an expression over other reads; None for an index over letters alone."""
        return self.index if isinstance(self.index, ScalarExpr) else None

    @property
    def dim(self) -> Dim:
        """The index over letters, the flag `size != 1` multiplied in where the entry is loose."""
        if isinstance(self.index, ScalarExpr):
            raise TypeError("an index that is read from data is no dim")
        return self.index * flag(self.size) if self.loose else self.index

    @property
    def index_vars(self) -> frozenset[Sym]:
        """All symbols of an index over letters, the program's sizes among them; of an index from
        data, its own letters."""
        if isinstance(self.index, ScalarExpr):
            return frozenset(n.index_var for n in walk(self.index) if isinstance(n, LoopIndex))
        return dims.syms(self.index)


def plain_index_vars(entries: tuple[AccessIndex, ...]) -> tuple[Sym | None, ...] | None:
    """The letter of each axis, where every entry is a letter of its own or the only element of its
    axis (None); None where an entry is anything else."""
    index_vars: list[Sym | None] = []
    for entry in entries:
        if isinstance(entry.index, ScalarExpr) or entry.loose or not entry.inside:
            return None
        index_var = dims.as_sym(entry.index)
        if index_var in index_vars or (index_var is None and (entry.index, entry.size) != (0, 1)):
            return None
        index_vars.append(index_var)
    return tuple(index_vars)


def flag(size: Dim) -> Dim:
    """1 where an axis has more than one element, 0 where it broadcasts."""
    return dims.select(dims.compare("eq", size, 1), 0, 1)


@attrs.frozen
class Read:
    """A read of one operand element.

    `name` identifies it in scalar expressions; an operand may have several reads.
    """

    name: str
    operand: int  # position in `IndexSpec.operands`
    entries: tuple[AccessIndex, ...]

    @cached_property
    def plain(self) -> tuple[Sym | None, ...] | None:
        """The letters of the axes, where each is just a letter (perhaps of a lesser extent)."""
        return plain_index_vars(self.entries)


@attrs.frozen
class Write:
    """One element of a result, and the value that goes there.

    The value is None where the body is no expression at one point: for whole axes, and for
    composites."""

    result: int  # position in `IndexSpec.results`
    entries: tuple[AccessIndex, ...]
    value: ScalarExpr | None
    unique: bool = True  # no two points (of different parallel letters) write one element

    @cached_property
    def uses_index_vars(self) -> bool:
        """Whether the value depends on loop indices."""
        return self.value is not None and any(isinstance(n, LoopIndex) for n in walk(self.value))

    @cached_property
    def plain(self) -> tuple[Sym | None, ...] | None:
        """The letters of the axes, where each is just a letter (perhaps of a lesser extent)."""
        return plain_index_vars(self.entries)


@attrs.frozen
class Condition:
    """A comparison of indices: only the points where it holds exist. `op` is lt, le, gt, ge, eq or
    ne."""

    op: str
    left: Dim
    right: Dim


@attrs.frozen(eq=False)
class Statement:
    """One loop nest: letters of the results (`parallel`, in the order of the first write), letters
    that are combined away (`reduce`), letters that the body sees at once (`whole`), and what a
    point reads and writes."""

    parallel: tuple[Sym, ...]
    reduce: tuple[Sym, ...]
    whole: tuple[Sym, ...]
    reads: tuple[Read, ...]
    writes: tuple[Write, ...]
    conditions: tuple[Condition, ...] = ()
    monoid: str | None = None  # a name in MONOIDS: of the reduction, and of writes that meet

    @cached_property
    def total(self) -> bool:
        """Whether every point of the loop space exists."""
        entries = [e for r in self.reads for e in r.entries]
        entries += [e for w in self.writes for e in w.entries]
        return not self.conditions and all(e.inside for e in entries)

    def read(self, name: str) -> Read:
        """Returns the read of this name."""
        return next(r for r in self.reads if r.name == name)


@attrs.frozen
class OperandInfo:
    """An operand tensor: its name in the line, where it occurs in the call, and what is known of
    it.

    `path` is the position among the call's arguments, and for a member of a list the position in
    the list."""

    name: str
    path: tuple[int, ...]
    dims: tuple[Dim, ...]
    dtype: str | None


@attrs.frozen
class ResultInfo:
    """A result tensor: its name in the index signature and its StructInfo."""

    name: str
    dims: tuple[Dim, ...]
    dtype: str | None


@attrs.frozen(eq=False)
class IndexSpec:
    """The loops of one op call.

    An operand of the signature without a read is not a data dependence.
    """

    operands: tuple[OperandInfo, ...]
    results: tuple[ResultInfo, ...]
    extents: Mapping[Sym, Dim]  # of every letter
    statements: tuple[Statement, ...]
    fill: Scalar = 0  # what no clause writes
    base: int | None = None  # the operand that the result starts from, instead of `fill`

    @property
    def whole(self) -> bool:
        """Whether a body sees axes at once: the values are made by a hook, the entries only say
        what depends on what."""
        return any(statement.whole for statement in self.statements)

    @property
    def computes(self) -> bool:
        """Whether every value is an expression at one point, so that the spec can be run as
        loops."""
        return all(w.value is not None for statement in self.statements for w in statement.writes)

    def count(self, statement: Statement) -> Dim | None:
        """How many points are combined into one; None where it depends on the place."""
        if not statement.total:
            return None
        return linear_index(self, statement.reduce)[1]


@attrs.frozen
class Scan:
    """A reduction over a triangle: `source <= target` (or `<`, `>=`, `>`), both of one extent.

    The source is one reduced letter, or the running number of all of them."""

    target: Sym  # the parallel letter
    op: str  # how the source compares with the target


FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def scan_of(spec: IndexSpec, statement: Statement) -> Scan | None:
    """The scan that a clause is, if its only condition bounds what is reduced by a parallel letter
    that no read looks at."""
    if len(statement.conditions) != 1 or statement.conditions[0].op not in FLIPPED:
        return None
    condition = statement.conditions[0]
    source, extent = linear_index(spec, statement.reduce)
    lhs, rhs, op = condition.left, condition.right, condition.op
    if rhs == source:
        lhs, rhs, op = rhs, lhs, FLIPPED[op]
    target = dims.as_sym(rhs)
    if lhs != source or target not in statement.parallel or target is None:
        return None
    reads_target = any(target in e.index_vars for r in statement.reads for e in r.entries)
    same_extent = dims.equal(spec.extents[target], extent)
    return Scan(target, op) if same_extent and not reads_target else None


def linear_index(spec: IndexSpec, index_vars: tuple[Sym, ...]) -> tuple[Dim, Dim]:
    """Returns the row-major number of a point, and the number of points."""
    number: Dim = 0
    count: Dim = 1
    for index_var in index_vars:
        number = number * spec.extents[index_var] + dims.as_dim(index_var)
        count = count * spec.extents[index_var]
    return number, count


def affine(index: Dim, index_vars: tuple[Sym, ...]) -> tuple[dict[Sym, Dim], Dim] | None:
    """An index as coefficients of letters and an offset, both free of letters; None where it is not
    affine."""
    coefficients: dict[Sym, Dim] = {}
    remainder = index
    for index_var in index_vars:
        linear = dims.linear(remainder, index_var)
        if linear is None:
            return None
        coefficient, remainder = linear
        if coefficient != 0:
            coefficients[index_var] = coefficient
    free = frozenset(index_vars)
    if any(dims.syms(c) & free for c in coefficients.values()):
        return None
    return coefficients, remainder


def product_of_reads(expr: ScalarExpr) -> tuple[str, ...] | None:
    """Returns the names of the reads whose product a value is; None for other values."""
    names: list[str] = []
    for node in walk(expr):
        match node:
            case OperandElement(name):
                names.append(name)
            case ScalarLiteral(value) if value == 1:
                pass
            case _ if getattr(node, "fn", None) != "mul":
                return None
    return tuple(names) if names else None


def sizes_in(spec: IndexSpec) -> frozenset[Sym]:
    """Returns the symbolic dims of a spec in sizes, indices and values."""
    return frozenset().union(*map(dims.syms, _dims(spec))) - spec.extents.keys()


def _dims(spec: IndexSpec) -> Iterator[Dim]:
    """Yields every size and index of some loops."""
    yield from spec.extents.values()
    for shape in [*[o.dims for o in spec.operands], *[r.dims for r in spec.results]]:
        yield from shape
    for statement in spec.statements:
        for condition in statement.conditions:
            yield from (condition.left, condition.right)
        exprs = [w.value for w in statement.writes if w.value is not None]
        accesses = [*[r.entries for r in statement.reads], *[w.entries for w in statement.writes]]
        for entry in [e for entries in accesses for e in entries]:
            yield entry.size
            if isinstance(entry.index, ScalarExpr):
                exprs.append(entry.index)
            else:
                yield entry.index
        yield from [n.dim for expr in exprs for n in walk(expr) if isinstance(n, ScalarExtent)]

"""Index specs: the elements that each point of an op's loop space reads and writes.

An `IndexSpec` is a list of statements over index variables. An *index variable* is a `Sym` that
ranges from 0 to its extent exclusive along one loop; extents are `Dim`s over the program's sizes.
Two index variables of equal extent remain distinct.

    lhs[~b, i, k], rhs[~b, k, j] -> out[~b, i, j]   reduce="sum"

is one statement with `parallel=(b_0, i, j)`, `reduce=(k,)`, the reads `lhs -> (b_0, i, k)` and `rhs
-> (b_0, k, j)`, and the write `out -> (b_0, i, j)` of the value `mul(lhs, rhs)`. The semantics of a
statement, with points in any order unless stated otherwise:

- a point exists if its `conditions` hold and every index of every read and write is inside its
  axis (`inside` marks indices that always are); other points are *absent*: they contribute
  nothing to a reduction, and without one leave the result at `fill`;
- each read loads one element under its name; the values of the writes are computed from these
  and the index variables;
- the monoid combines the values of the points that differ in reduction variables only;
- the write stores the value at its indices. Where several points write one element (`unique` is
  false), the statement's `monoid` combines them with the stored value; without a monoid the last
  point in row-major order wins.

Results start at `fill`, or from the operand `base`. Statements run in order: the operands of a
concatenation are statements that write at different offsets of one result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

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
    distinct_nodes,
    walk,
)
from structir.system.locks import cached_property


@attrs.frozen
class Table:
    """The values of an index read from a constant, in row-major order of its index variables."""

    index_vars: tuple[Sym, ...]
    extents: tuple[int, ...]
    values: tuple[int, ...]


@attrs.frozen
class AccessIndex:
    """The index of a read or a write along one axis of its tensor.

    `index` is a `Dim` over index variables and sizes, or a scalar expression over other reads (an
    index read from data). A `loose` index is 0 if the axis has size 1 at run time, and `index`
    otherwise: undecided broadcasting. A `whole` index reads the axis at once; its `index` is the
    index variable. An index read from a constant may have the `table` of its values.
    """

    index: Dim | ScalarExpr
    size: Dim  # of the axis
    inside: bool = True  # 0 <= index < size at every point of the loop space
    loose: bool = False
    whole: bool = False
    table: Table | None = None

    @property
    def data(self) -> ScalarExpr | None:
        """The index as an expression over other reads; None for an affine one."""
        return self.index if isinstance(self.index, ScalarExpr) else None

    @property
    def dim(self) -> Dim:
        """The index as a dim; a loose one is multiplied by the flag `size != 1`."""
        if isinstance(self.index, ScalarExpr):
            raise TypeError("expected an index over index variables, found one read from data")
        return self.index * flag(self.size) if self.loose else self.index

    @property
    def index_vars(self) -> frozenset[Sym]:
        """The symbols of the index: for an index read from data its index variables, else also
        sizes.
        """
        if isinstance(self.index, ScalarExpr):
            return frozenset(
                [n.index_var for n in distinct_nodes(self.index) if isinstance(n, LoopIndex)]
            )
        return dims.syms(self.index)


def plain_index_vars(entries: tuple[AccessIndex, ...]) -> tuple[Sym | None, ...] | None:
    """Returns the index variable of each axis; None for an axis of size 1.

    Returns None if an index is anything else, or an index variable occurs twice.
    """
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
    """Returns 1 for an axis of several elements, and 0 for one that broadcasts."""
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
        """The index variable of each axis, if each index is one (of at most the axis's extent)."""
        return plain_index_vars(self.entries)


@attrs.frozen
class Write:
    """A write of one result element.

    The value is None if the body is no scalar expression: for whole axes and composite ops.
    """

    result: int  # position in `IndexSpec.results`
    entries: tuple[AccessIndex, ...]
    value: ScalarExpr | None
    unique: bool = True  # no two points (of different parallel index variables) write one element

    @cached_property
    def index_vars(self) -> frozenset[Sym]:
        """The index variables that the value depends on."""
        nodes = () if self.value is None else distinct_nodes(self.value)
        return frozenset([n.index_var for n in nodes if isinstance(n, LoopIndex)])

    @property
    def uses_index_vars(self) -> bool:
        """Whether the value depends on index variables."""
        return bool(self.index_vars)

    @cached_property
    def plain(self) -> tuple[Sym | None, ...] | None:
        """The index variable of each axis, if each index is one (of at most the axis's extent)."""
        return plain_index_vars(self.entries)


@attrs.frozen
class Condition:
    """A comparison of indices that holds at every existing point.

    `op` is lt, le, gt, ge, eq or ne.
    """

    op: str
    left: Dim
    right: Dim


@attrs.frozen(eq=False)
class Statement:
    """One loop nest with its reads and writes.

    `parallel` are the index variables of the results, in the order of the first write, `reduce`
    those of the reduction, and `whole` those of axes that the body receives at once. Without
    `exact`, a point may exist where its reads do not matter.
    """

    parallel: tuple[Sym, ...]
    reduce: tuple[Sym, ...]
    whole: tuple[Sym, ...]
    reads: tuple[Read, ...]
    writes: tuple[Write, ...]
    conditions: tuple[Condition, ...] = ()
    monoid: str | None = None  # a name in MONOIDS: for the reduction and overlapping writes
    exact: bool = True

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
    """An operand tensor: its name in the index signature, its position in the call, its StructInfo.

    `path` is the index of the argument, followed by an index into a tuple argument.
    """

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
    extents: Mapping[Sym, Dim]  # of every index variable
    statements: tuple[Statement, ...]
    fill: Scalar = 0  # the value of elements that no statement writes
    base: int | None = None  # the operand that the result starts from, instead of `fill`

    @property
    def whole(self) -> bool:
        """Whether a body receives whole axes; a hook computes the values, and indices give
        dependencies.
        """
        return any(statement.whole for statement in self.statements)

    @property
    def computes(self) -> bool:
        """Whether every value is a scalar expression, so that the spec can run as loops."""
        return all(w.value is not None for statement in self.statements for w in statement.writes)

    def count(self, statement: Statement) -> Dim | None:
        """Returns the number of points in each reduction; None if it varies."""
        if not statement.total:
            return None
        return linear_index(self, statement.reduce)[1]


@attrs.frozen
class Scan:
    """A reduction over a triangle: `source <= target` (or `<`, `>=`, `>`), both of one extent.

    The source is one reduction variable, or the linear index of all of them.
    """

    target: Sym  # the parallel index variable
    op: str  # how the source compares with the target


FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def scan_of(spec: IndexSpec, statement: Statement) -> Scan | None:
    """Returns the scan that a statement is, or None.

    Its only condition must bound the reduction by a parallel index variable that no read uses.
    """
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
    """Returns the row-major linear index of a point, and the number of points."""
    number: Dim = 0
    count: Dim = 1
    for index_var in index_vars:
        number = number * spec.extents[index_var] + dims.as_dim(index_var)
        count = count * spec.extents[index_var]
    return number, count


@lru_cache(4096)
def affine(index: Dim, index_vars: tuple[Sym, ...]) -> tuple[Mapping[Sym, Dim], Dim] | None:
    """Returns the coefficients of the index variables and the offset; None if the index is not
    affine.
    """
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


@lru_cache(4096)
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
    """Yields every size and index of a spec."""
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
        yield from [
            n.dim for expr in exprs for n in distinct_nodes(expr) if isinstance(n, ScalarExtent)
        ]

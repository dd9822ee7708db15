"""Restricts a spec to blocks of its results and operands: the loops of one shard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.projections.boxes import Bounds, region
from structir.projections.index_sets import IterationPoints
from structir.projections.loop_nests import Sizes, loops_of
from structir.projections.scalar_expr import (
    LoopIndex,
    OperandElement,
    ScalarExpr,
    ScalarLiteral,
    add,
    cast,
    operands_of,
    sub,
    substitute,
    walk,
)
from structir.projections.spec import (
    AccessIndex,
    Condition,
    IndexSpec,
    OperandInfo,
    Read,
    ResultInfo,
    Statement,
    Write,
    scan_of,
)

Range = tuple[int, int]  # of positions, the second exclusive
Names = dict[tuple[int, object], Sym]  # restricted index variables by statement and original one


def local_spec(
    spec: IndexSpec,
    sizes: Sizes,
    results: Sequence[Bounds | None],
    operands: Sequence[Bounds],
    *,
    ranges: Mapping[Sym, Range] | None = None,
    names: Names | None = None,
    width: Callable[[int], Dim] = int,
) -> IndexSpec:
    """Returns a spec whose operands and results are blocks of those of another, at concrete sizes.

    `results` are the blocks to compute (None for an empty one), `operands` the available blocks;
    they must contain all elements that the results require. Blocks along a scan are those of
    `common_block`. `ranges` narrows reduction indices: the results are then partial and
    must be combined. Restrictions with the same `names` share index variables, so that equal
    computations compare equal. An axis that is not split keeps its dim; `width` returns the dim of
    a block size.
    """
    computed = [b or nothing(len(r.dims)) for b, r in zip(results, spec.results, strict=True)]
    names = {} if names is None else names
    restriction = _SpecRestriction(spec, sizes, computed, operands, ranges or {}, names, width)
    statements = list(restriction.base())
    statements += [
        local for n, each in enumerate(spec.statements) if (local := restriction.statement(n, each))
    ]
    operand_infos = [
        OperandInfo(o.name, (k,), restriction.shape(o.dims, block), o.dtype)
        for k, (o, block) in enumerate(zip(spec.operands, operands, strict=True))
    ]
    result_infos = [
        ResultInfo(r.name, restriction.shape(r.dims, block), r.dtype)
        for r, block in zip(spec.results, computed, strict=True)
    ]
    base = restriction.shared_base
    return IndexSpec(
        tuple(operand_infos),
        tuple(result_infos),
        restriction.extents,
        tuple(statements),
        spec.fill,
        base,
    )


def common_block(spec: IndexSpec, sizes: Sizes, results: Sequence[Bounds]) -> list[Bounds]:
    """Returns the blocks to compute for the requested ones: along a scan, all that precede."""
    blocks = list(results)
    for statement in spec.statements:
        scan = scan_of(spec, statement)
        for write in statement.writes if scan is not None else ():
            start, stop = map(list, blocks[write.result])
            for axis, entry in enumerate(write.entries):
                if scan is not None and scan.target in entry.index_vars and start != stop:
                    first = scan.op in ("lt", "le") and len(statement.reduce) == 1
                    last = scan.op in ("gt", "ge") and len(statement.reduce) == 1
                    size = entry.size
                    end = size if isinstance(size, int) else dims.evaluate(size, dict(sizes))
                    start[axis] = start[axis] if last else 0
                    stop[axis] = stop[axis] if first else end
            blocks[write.result] = tuple(start), tuple(stop)
    return blocks


def widths(bounds: Bounds) -> tuple[int, ...]:
    """Returns the shape of a block."""
    return tuple([b - a for a, b in zip(*bounds, strict=True)])


def nothing(rank: int) -> Bounds:
    """Returns the empty block."""
    return (0,) * rank, (0,) * rank


@attrs.frozen
class _Containment:
    """The accesses of a restriction that certainly stay inside their blocks."""

    reads: bool
    writes: bool


@attrs.frozen(eq=False)
class _SpecRestriction:
    """The restriction of one spec to blocks, built statement by statement."""

    spec: IndexSpec
    sizes: Sizes
    results: Sequence[Bounds]
    operands: Sequence[Bounds]
    narrowed: Mapping[Sym, Range]
    names: Names
    width: Callable[[int], Dim]
    extents: dict[Sym, Dim] = attrs.Factory(dict)

    @property
    def shared_base(self) -> int | None:
        """The operand that the first result starts from, if the two blocks are equal."""
        base = self.spec.base
        return base if base is not None and self.operands[base] == self.results[0] else None

    def base(self) -> Iterator[Statement]:
        """Yields a statement that copies the base into the first result, if the blocks differ."""
        if self.spec.base is None or self.shared_base is not None:
            return
        block, target = self.operands[self.spec.base], self.results[0]
        operand_shape = self.shape(self.spec.operands[self.spec.base].dims, block)
        result_shape = self.shape(self.spec.results[0].dims, target)
        sizes = list(zip(operand_shape, result_shape, strict=True))
        read, write = [], []
        index_vars = []
        for axis, (a, b, p, q) in enumerate(zip(*block, *target, strict=True)):
            low = max(a, p)
            index_var = self.index_var(-1, axis)
            index_vars.append(index_var)
            self.extents[index_var] = self.width(max(min(b, q) - low, 0))
            read.append(AccessIndex(dims.as_dim(index_var) + low - a, sizes[axis][0]))
            write.append(AccessIndex(dims.as_dim(index_var) + low - p, sizes[axis][1]))
        reads = (Read("base", self.spec.base, tuple(read)),)
        writes = (Write(0, tuple(write), OperandElement("base")),)
        yield Statement(tuple(index_vars), (), (), reads, writes)

    def shape(self, sizes: Sequence[Dim], block: Bounds) -> tuple[Dim, ...]:
        """Returns the dims of a block."""
        pairs = zip(sizes, *block, strict=True)
        return tuple([self.size(dim, (start, stop)) for dim, start, stop in pairs])

    def size(self, dim: Dim, part: Range) -> Dim:
        """Returns the dim of a part of an axis: the original dim for all of it."""
        start, stop = part
        return dim if part == (0, self.number(dim)) else self.width(stop - start)

    def index_var(self, statement: int, original: object) -> Sym:
        """Returns the restricted index variable of an original one."""
        key = (statement, original)
        if key not in self.names:
            self.names[key] = Sym(original.name if isinstance(original, Sym) else f"x{original}")
        return self.names[key]

    def number(self, dim: Dim) -> int:
        """Returns the value of a dim."""
        return dim if isinstance(dim, int) else dims.evaluate(dim, dict(self.sizes))

    def statement(self, number: int, statement: Statement) -> Statement | None:
        """Returns a statement restricted to the blocks; None if no point writes into them."""
        ranges_and_containment = self.ranges(statement)
        if ranges_and_containment is None:
            return None
        ranges, containment = ranges_and_containment
        restricted_vars = {s: self.index_var(number, s) for s in ranges}
        extents = {s: self.spec.extents[s] for s in ranges}
        self.extents.update(
            {restricted_vars[s]: self.size(extents[s], part) for s, part in ranges.items()}
        )
        full = frozenset([s for s, part in ranges.items() if part == (0, self.number(extents[s]))])
        rewriter = _AccessRewriter(
            self, restricted_vars, {s: a for s, (a, _) in ranges.items()}, full
        )
        writes = tuple([w for w in statement.writes if self.is_computed(w)])
        return Statement(
            tuple([restricted_vars[s] for s in statement.parallel]),
            tuple([restricted_vars[s] for s in statement.reduce]),
            (),
            tuple(
                [
                    rewriter.read(r, self.operands[r.operand], containment)
                    for r in _used(statement, writes)
                ]
            ),
            tuple([rewriter.write(w, self.results[w.result], containment) for w in writes]),
            tuple([rewriter.condition(c) for c in statement.conditions]),
            statement.monoid,
        )

    def ranges(self, statement: Statement) -> tuple[dict[Sym, Range], _Containment] | None:
        """Returns the range of each index variable, and which accesses certainly stay inside the
        blocks.
        """
        points = list(self.points(statement))
        if not points:
            return None
        hull = {
            index_var: (min(p.sets[k].start for p in points), max(p.sets[k].stop for p in points))
            for k, index_var in enumerate(statement.parallel)
        }
        for index_var in statement.reduce:
            hull[index_var] = self.narrowed.get(
                index_var, (0, self.number(self.spec.extents[index_var]))
            )
        point_set = points[0]
        no_gaps = not any(point_set.sets[k].mask for k in range(len(statement.parallel)))
        exact = len(points) == 1 and point_set.exact and not point_set.ties and no_gaps
        scan = scan_of(self.spec, statement)
        if scan is None:
            return hull, _Containment(exact, exact)
        if len(statement.reduce) == 1:
            hull[statement.reduce[0]] = hull[scan.target]
        # an exclusive scan does not read the last element
        return hull, _Containment(exact and scan.op in ("le", "ge"), exact)

    def is_computed(self, write: Write) -> bool:
        """Whether any result element is computed."""
        start, stop = self.results[write.result]
        return not start or start != stop

    def points(self, statement: Statement) -> Iterator[IterationPoints]:
        """Yields the points that write into the blocks, including those of empty reductions."""
        loops = loops_of(statement, self.spec.extents, self.sizes)
        if statement.reduce:
            loops = attrs.evolve(loops, reads={}, conditions=())
        for access, write in zip(loops.writes, statement.writes, strict=True):
            if not self.is_computed(write):
                continue
            for box in region(*self.results[write.result]).boxes:
                yield from loops.points(access, box)


def _used(statement: Statement, writes: Sequence[Write]) -> Iterator[Read]:
    """Yields the reads that some writes depend on."""
    entries = [e for r in statement.reads for e in r.entries]
    entries += [e for w in writes for e in w.entries]
    exprs = [w.value for w in writes if w.value is not None]
    exprs += [e.index for e in entries if isinstance(e.index, ScalarExpr)]
    used = frozenset().union(*[operands_of(expr) for expr in exprs])
    for read in statement.reads:
        if read.name in used or not all(e.inside for e in read.entries):
            yield read


@attrs.frozen(eq=False)
class _AccessRewriter:
    """The rewriting of the accesses of one statement relative to the blocks."""

    restriction: _SpecRestriction
    restricted_vars: Mapping[Sym, Sym]
    starts: Mapping[Sym, int]
    unsplit: frozenset[Sym]

    def read(self, read: Read, block: Bounds, containment: _Containment) -> Read:
        """Returns a read of a block of its operand."""
        return Read(read.name, read.operand, self.entries(read.entries, block, containment.reads))

    def write(self, write: Write, block: Bounds, containment: _Containment) -> Write:
        """Returns a write into a block of its result."""
        value = None if write.value is None else self.expr(write.value)
        entries = self.entries(write.entries, block, containment.writes)
        return Write(write.result, entries, value, write.unique)

    def condition(self, condition: Condition) -> Condition:
        """Returns a comparison of indices."""
        return Condition(condition.op, self.dim(condition.left), self.dim(condition.right))

    def entries(
        self, entries: tuple[AccessIndex, ...], block: Bounds, exact: bool
    ) -> tuple[AccessIndex, ...]:
        """Returns the indices of an access relative to a block."""
        return tuple(
            [
                self.entry(entry, start, stop, exact)
                for entry, start, stop in zip(entries, *block, strict=True)
            ]
        )

    def entry(self, entry: AccessIndex, start: int, stop: int, exact: bool) -> AccessIndex:
        """Returns the index of an access along one axis, relative to a block."""
        size = self.restriction.number(entry.size)
        width = self.restriction.size(entry.size, (start, stop))
        if entry.loose and size == 1:
            return AccessIndex(0, width)
        if isinstance(entry.index, ScalarExpr):
            index = self.expr(entry.index)
            if start:  # an element of a narrow dtype would wrap around, or not hold the start
                index = sub(cast(index, "int64"), ScalarLiteral(start))
            return AccessIndex(index, width, entry.inside)
        inside = entry.inside and (exact or (start, stop) == (0, size))
        is_full = (start, stop) == (0, size)
        return AccessIndex(self.dim(entry.index, is_full) - start, width, inside)

    def dim(self, dim: Dim, is_full: bool = True) -> Dim:
        """Returns an index over restricted index variables; with numbers for sizes if any is
        narrowed.
        """
        keeps_sizes = is_full and not dims.syms(dim) & self.restricted_vars.keys() - self.unsplit
        sizes: dict[Sym, Dim] = {} if keeps_sizes else dict(self.restriction.sizes)
        index_vars = {
            s: dims.as_dim(self.restricted_vars[s]) + start for s, start in self.starts.items()
        }
        return dim if isinstance(dim, int) else dims.substitute(dim, {**sizes, **index_vars})

    def expr(self, expr: ScalarExpr) -> ScalarExpr:
        """Returns a scalar expression of the restriction."""
        replacements: dict[ScalarExpr, ScalarExpr] = {}
        for node in walk(expr):
            match node:
                case LoopIndex(index_var) if index_var in self.restricted_vars:
                    start, restricted = (
                        self.starts[index_var],
                        LoopIndex(self.restricted_vars[index_var]),
                    )
                    replacements[node] = (
                        add(restricted, ScalarLiteral(start)) if start else restricted
                    )
        return substitute(expr, replacements) if replacements else expr

"""The part of a spec that makes a block of its results from blocks of its operands alone: what one
shard runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.projections.boxes import Bounds, region
from structir.projections.concrete import Sizes, loops_of
from structir.projections.letter_sets import Points
from structir.projections.point import (
    Extent,
    Index,
    Literal,
    Operand,
    Point,
    add,
    operands_of,
    sub,
    substitute,
    walk,
)
from structir.projections.spec import (
    Clause,
    Condition,
    Entry,
    IndexSpec,
    OperandInfo,
    Read,
    ResultInfo,
    Write,
    scan_of,
)

Range = tuple[int, int]  # of positions, the second exclusive
Names = dict[tuple[int, object], Sym]  # the letters of each clause, in all parts of one spec


def local_spec(
    spec: IndexSpec,
    sizes: Sizes,
    results: Sequence[Bounds | None],
    operands: Sequence[Bounds],
    *,
    cut: Mapping[Sym, Range] | None = None,
    names: Names | None = None,
) -> IndexSpec:
    """A spec whose operands and results are blocks of those of another, at concrete sizes.

    `results` are the blocks to make (None: nothing of it, and no elements), `operands` the blocks
    that are at hand; they must hold everything that the results need. `cut` narrows letters that
    are reduced: the result is then a part, still to be combined with the others. Parts made with
    the same `names` have the same letters, so that those that do the same thing are equal.
    """
    made = [b or _nothing(len(r.dims)) for b, r in zip(results, spec.results, strict=True)]
    cutter = _Cutter(spec, sizes, made, operands, cut or {}, {} if names is None else names)
    clauses = list(cutter.base())
    clauses += [c for n, each in enumerate(spec.clauses) if (c := cutter.clause(n, each))]
    infos = [
        OperandInfo(o.name, (k,), widths(block), o.dtype)
        for k, (o, block) in enumerate(zip(spec.operands, operands, strict=True))
    ]
    outs = [
        ResultInfo(r.name, widths(block), r.dtype)
        for r, block in zip(spec.results, made, strict=True)
    ]
    base = cutter.kept_base
    return IndexSpec(tuple(infos), tuple(outs), cutter.extents, tuple(clauses), spec.fill, base)


def widths(bounds: Bounds) -> tuple[int, ...]:
    """The shape of a block."""
    return tuple([b - a for a, b in zip(*bounds, strict=True)])


def _nothing(rank: int) -> Bounds:
    return (0,) * rank, (0,) * rank


@attrs.frozen
class _Sure:
    """Whether the points of a part never leave the blocks that they read, and those they write."""

    reads: bool
    writes: bool


@attrs.frozen(eq=False)
class _Cutter:
    """Cuts the clauses of one spec to blocks."""

    spec: IndexSpec
    sizes: Sizes
    results: Sequence[Bounds]
    operands: Sequence[Bounds]
    cut: Mapping[Sym, Range]
    names: Names
    extents: dict[Sym, Dim] = attrs.Factory(dict)

    @property
    def kept_base(self) -> int | None:
        """The operand that the first result starts from, if the two blocks are the same."""
        base = self.spec.base
        return base if base is not None and self.operands[base] == self.results[0] else None

    def base(self) -> Iterator[Clause]:
        """A clause that copies what the first result starts from, where the blocks differ."""
        if self.spec.base is None or self.kept_base is not None:
            return
        block, target = self.operands[self.spec.base], self.results[0]
        read, write = [], []
        letters = []
        for axis, (a, b, p, q) in enumerate(zip(*block, *target, strict=True)):
            low = max(a, p)
            letter = self.letter(-1, axis)
            letters.append(letter)
            self.extents[letter] = max(min(b, q) - low, 0)
            read.append(Entry(dims.as_dim(letter) + low - a, b - a))
            write.append(Entry(dims.as_dim(letter) + low - p, q - p))
        reads = (Read("base", self.spec.base, tuple(read)),)
        writes = (Write(0, tuple(write), Operand("base")),)
        yield Clause(tuple(letters), (), (), reads, writes)

    def letter(self, clause: int, own: object) -> Sym:
        """The letter that stands for one of a clause's."""
        key = (clause, own)
        if key not in self.names:
            self.names[key] = Sym(own.name if isinstance(own, Sym) else f"x{own}")
        return self.names[key]

    def number(self, dim: Dim) -> int:
        """A size as a number."""
        return dim if isinstance(dim, int) else dims.evaluate(dim, dict(self.sizes))

    def clause(self, number: int, clause: Clause) -> Clause | None:
        """A clause over the blocks; None if no point of it writes into a block."""
        found = self.ranges(clause)
        if found is None:
            return None
        ranges, safe = found
        named = {s: self.letter(number, s) for s in ranges}
        self.extents.update({named[s]: b - a for s, (a, b) in ranges.items()})
        moved = _Moved(self, named, {s: a for s, (a, _) in ranges.items()})
        writes = tuple([w for w in clause.writes if self.wanted(w)])
        return Clause(
            tuple([named[s] for s in clause.parallel]),
            tuple([named[s] for s in clause.reduce]),
            (),
            tuple([moved.read(r, self.operands[r.operand], safe) for r in _used(clause, writes)]),
            tuple([moved.write(w, self.results[w.result], safe) for w in writes]),
            tuple([moved.condition(c) for c in clause.conditions]),
            clause.monoid,
        )

    def ranges(self, clause: Clause) -> tuple[dict[Sym, Range], _Sure] | None:
        """Where each letter goes, and what is sure of the points there."""
        found = list(self.points(clause))
        if not found:
            return None
        hull = {
            letter: (min(p.sets[k].start for p in found), max(p.sets[k].stop for p in found))
            for k, letter in enumerate(clause.parallel)
        }
        for letter in clause.reduce:
            hull[letter] = self.cut.get(letter, (0, self.number(self.spec.extents[letter])))
        first = found[0]
        plain = not any(first.sets[k].mask for k in range(len(clause.parallel)))
        sure = len(found) == 1 and first.exact and not first.ties and plain
        scan = scan_of(self.spec, clause)
        if scan is None:
            return hull, _Sure(sure, sure)
        low, high = hull[scan.target]
        end = self.number(self.spec.extents[scan.target])
        alone = len(clause.reduce) == 1
        along = (0, high if alone else end) if scan.op in ("lt", "le") else (low if alone else 0, end)
        hull[scan.target] = along
        if alone:
            hull[clause.reduce[0]] = along
        return hull, _Sure(sure and alone, sure and along == (low, high))

    def wanted(self, write: Write) -> bool:
        """Whether any element of the result is to be made."""
        start, stop = self.results[write.result]
        return not start or start != stop

    def points(self, clause: Clause) -> Iterator[Points]:
        """The points that write into the blocks."""
        loops = loops_of(clause, self.spec.extents, self.sizes)
        for access, write in zip(loops.writes, clause.writes, strict=True):
            if not self.wanted(write):
                continue
            for box in region(*self.results[write.result]).boxes:
                yield from loops.points(access, box)


def _used(clause: Clause, writes: Sequence[Write]) -> Iterator[Read]:
    """The reads that some writes depend on."""
    entries = [e for a in (*clause.reads, *writes) for e in a.entries]
    points = [w.value for w in writes if w.value is not None]
    points += [e.index for e in entries if isinstance(e.index, Point)]
    used = frozenset().union(*[operands_of(p) for p in points])
    for read in clause.reads:
        if read.name in used or not all(e.inside for e in read.entries):
            yield read


@attrs.frozen(eq=False)
class _Moved:
    """Accesses of a clause, spoken of from where its blocks start."""

    cutter: _Cutter
    named: Mapping[Sym, Sym]
    starts: Mapping[Sym, int]

    def read(self, read: Read, block: Bounds, safe: _Sure) -> Read:
        """A read of a block of its operand."""
        return Read(read.name, read.operand, self.entries(read.entries, block, safe.reads))

    def write(self, write: Write, block: Bounds, safe: _Sure) -> Write:
        """A write into a block of its result."""
        value = None if write.value is None else self.point(write.value)
        entries = self.entries(write.entries, block, safe.writes)
        return Write(write.result, entries, value, write.unique)

    def condition(self, condition: Condition) -> Condition:
        """A comparison of indices."""
        return Condition(condition.op, self.dim(condition.left), self.dim(condition.right))

    def entries(
        self, entries: tuple[Entry, ...], block: Bounds, sure: bool
    ) -> tuple[Entry, ...]:
        """Where an access stands in a block."""
        return tuple([
            self.entry(entry, start, stop, sure)
            for entry, start, stop in zip(entries, *block, strict=True)
        ])

    def entry(self, entry: Entry, start: int, stop: int, sure: bool) -> Entry:
        """Where an access stands along one axis of a block."""
        size = self.cutter.number(entry.size)
        if entry.loose and size == 1:
            return Entry(0, stop - start)
        if isinstance(entry.index, Point):
            index = self.point(entry.index)
            return Entry(sub(index, Literal(start)) if start else index, stop - start, entry.inside)
        inside = entry.inside and (sure or (start, stop) == (0, size))
        return Entry(self.dim(entry.index) - start, stop - start, inside)

    def dim(self, dim: Dim) -> Dim:
        """An index over the letters of the part."""
        sizes: dict[Sym, Dim] = dict(self.cutter.sizes)
        letters = {s: dims.as_dim(self.named[s]) + start for s, start in self.starts.items()}
        return dim if isinstance(dim, int) else dims.substitute(dim, {**sizes, **letters})

    def point(self, point: Point) -> Point:
        """A value at a point of the part."""
        replacements: dict[Point, Point] = {}
        for node in walk(point):
            match node:
                case Index(letter) if letter in self.named:
                    start, own = self.starts[letter], Index(self.named[letter])
                    replacements[node] = add(own, Literal(start)) if start else own
                case Extent(dim):
                    replacements[node] = Extent(self.cutter.number(dim))
        return substitute(point, replacements) if replacements else point

"""Fusion of stages into kernels, decided from index maps alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.loops.fusion.epilogue_fusion import not_following
from structir.loops.fusion.siblings import save_traffic
from structir.loops.products.contraction import Contraction, contraction_of
from structir.loops.program.access import AxisClasses, reduces_slow_axes
from structir.loops.program.apart import writes_apart
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import Expression, Load
from structir.loops.program.stage import LoopProgram, Overwrite, Stage, topological_order
from structir.targets.cpu.products import has_own_products

MOST_BUFFERS = 20
COPIES = frozenset({"padding", "windows"})  # of planes, with borders or of sums
ALONE = COPIES | {"nest", "routine"}  # kinds that are not fused
MOST_STAGES = 48
FUSED = "joined"  # the reason of a decision to fuse


@attrs.frozen
class Group:
    """Stages of one kernel over common axes.

    `kind` is "rows" (maps and reductions along inner axes), "columns" (a reduction whose contiguous
    axis stays), "matrix" (a matrix product, with its epilogue), "blocks" (products with maps and
    reductions along their rows), "routine" (code of its own), "padding" (a copy with a border),
    "windows" (a sum over windows of planes), "planes" (copies or such sums, fused into the rows
    that read them), "nest" (one stage of any other form), "points" (such a stage with maps of its
    result), or a backend's own. `kept` are the buffers that are read elsewhere; `given` are those
    of them that are results of the program.
    """

    kind: str
    stages: tuple[Stage, ...]
    rows: tuple[Sym, ...]
    kept: frozenset[Buffer]
    given: frozenset[Buffer] = frozenset()

    @property
    def origins(self) -> tuple[str, ...]:
        """The locations of its stages, each once."""
        return tuple(dict.fromkeys(s.origin for s in self.stages if s.origin))


@attrs.frozen
class Decision:
    """Why a producer was fused with its reader, or why not."""

    producer: Stage
    reader: Stage
    reason: str


@attrs.frozen
class ProductSupport:
    """The products of a backend: which stages are products, and the dtypes that can be fused with
    other stages. `followed` says whether a product's kernel can compute some stages as its
    epilogue, with those buffers kept; it applies to stages alone for which `leads` is true, too.
    `together` selects stages that form a kernel of their own kind, with the buffers that are read
    elsewhere. `windows` have their own."""

    found: Callable[[Stage], Contraction | None] = contraction_of
    joined: Callable[[str], bool] = has_own_products
    followed: Callable[[Stage, Sequence[Stage], Collection[Buffer]], bool] | None = None
    leads: Callable[[Stage], bool] = lambda stage: False
    together: tuple[Group, ...] = ()
    windows: Callable[[Stage], bool] = lambda stage: False


def grouped(
    program: LoopProgram, products: ProductSupport | None = None
) -> tuple[list[Group], list[Decision]]:
    """Returns the groups in an executable order, and the log of fusion decisions."""
    fusion = FusionState(program, products or ProductSupport())
    fusion.join_producers()
    fusion.join_siblings()
    fusion.join_pieces()
    return fusion.groups(), fusion.decisions


class FusionState:
    """The state of fusion: the groups of stages, and the classes of axes."""

    def __init__(self, program: LoopProgram, products: ProductSupport) -> None:
        self.joins_products, self.followed = products.joined, products.followed
        self.stages = list(program.stages)
        self.place = {stage: i for i, stage in enumerate(self.stages)}
        self.classes = AxisClasses({a: e for s in self.stages for a, e in s.extents.items()})
        self.outputs = {b.root for b in program.outputs}
        self.in_place = {result.root for result, _ in program.donated}  # of an input, if alone
        self.writers: dict[Buffer, list[Stage]] = {}
        self.readers: dict[Buffer, list[Stage]] = {}
        for stage in self.stages:
            self.writers.setdefault(stage.out.root, []).append(stage)
            for read in stage.loads:
                self.readers.setdefault(read.buffer.root, []).append(stage)
        self.old_readers: dict[Buffer, list[Stage]] = {}  # readers of what a buffer overwrites,
        self.overwriters: dict[Stage, list[Stage]] = {}  # and the stages that must precede each
        for overwrite in program.overwrites:
            self._note_overwrite(overwrite)
        self.products = {s: c for s in self.stages if (c := products.found(s))}
        self.leading = {*self.products, *filter(products.leads, self.stages)}
        others = [s for s in self.stages if s not in self.products and not s.reads_at_axes]
        self.windows = set(filter(products.windows, others))
        loops = [s for s in self.stages if s.simple and s not in {*self.products, *self.windows}]
        self.outside = {s for s in loops if reduces_slow_axes(s)}
        self.kinds = {stage: self._kind(stage) for stage in self.stages}
        self.members: dict[Stage, list[Stage]] = {stage: [stage] for stage in self.stages}
        self._makers: dict[Stage, list[tuple[Load, Stage]]] = {}
        self._after: dict[Stage, list[Stage]] = {}
        self._units: dict[Stage | Load, tuple[Sym | None, ...]] = {}
        self.decisions: list[Decision] = []
        self.settled = {stage: group for group in products.together for stage in group.stages}
        for group in products.together:
            members = list(group.stages)
            self.members |= {stage: members for stage in members}

    def _note_overwrite(self, overwrite: Overwrite) -> None:
        old_readers = self.readers.get(overwrite.donor, [])
        self.old_readers[overwrite.target] = old_readers
        for reader in old_readers:
            late = self.overwriters.setdefault(reader, [])
            late += self.writers.get(overwrite.target, [])

    def _kind(self, stage: Stage) -> str:
        if stage.routine is not None:
            return "routine"
        if stage in self.products:
            return "matrix"
        if stage in self.windows:
            return "windows"
        if not stage.simple:
            alone = "points" if stage in self.leading else "nest"
            return alone if stage.otherwise is None else "padding"
        return "loop"

    def producers(self, stage: Stage) -> list[tuple[Load, Stage]]:
        """Returns the reads of a stage with the stages that compute them."""
        producers = self._makers.get(stage)
        if producers is None:
            producers = [(x, p) for x in stage.loads for p in self.writers.get(x.buffer.root, ())]
            self._makers[stage] = producers
        return producers

    def before(self, stage: Stage) -> list[Stage]:
        """Returns the predecessors of a stage: those it reads from, earlier writers of its buffer,
        and readers of what it overwrites."""
        earlier = [p for p in self.writers[stage.out.root] if self.place[p] < self.place[stage]]
        earlier += self.old_readers.get(stage.out.root, [])
        return [p for _, p in self.producers(stage) if p is not stage] + earlier

    def after(self, stage: Stage) -> list[Stage]:
        """Returns the successors of a stage."""
        after = self._after.get(stage)
        if after is None:
            root, place = stage.out.root, self.place[stage]
            after = [r for r in self.readers.get(root, ()) if r is not stage]
            after += [p for p in self.writers[root] if self.place[p] > place]
            after += self.overwriters.get(stage, ())
            self._after[stage] = after
        return after

    def units(self, access: Stage | Load) -> tuple[Sym | None, ...]:
        """Returns the axis or size that each entry of a write or a read is by itself, if any."""
        units = self._units.get(access)
        if units is None:
            entries = access.write if isinstance(access, Stage) else access.entries
            units = tuple([None if isinstance(e, Expression) else dims.as_sym(e) for e in entries])
            self._units[access] = units
        return units

    def join_producers(self) -> None:
        """Fuses each stage's group with those of its producers, where it is legal."""
        for reader in self.stages:
            for producer in self._producers(reader):
                if self.members[producer] is not self.members[reader]:
                    reason = self.join(producer, reader)
                    self.decisions.append(Decision(producer, reader, reason or FUSED))

    def _producers(self, reader: Stage) -> list[Stage]:
        """Returns the producers of a stage; first those whose products take epilogues."""
        candidates = [producer for _, producer in self.producers(reader)]
        if self.followed is None:
            return candidates
        return sorted(candidates, key=lambda s: not any(m in self.leading for m in self.members[s]))

    def join(self, producer: Stage, reader: Stage) -> str | None:
        """Fuses two groups, or returns the reason why not."""
        first, second = self.members[producer], self.members[reader]
        together = sorted([*first, *second], key=self.place.__getitem__)
        if any(s in self.settled for s in together):
            return "one of them is part of a kernel of its own kind"
        if any(self.kinds[s] in ALONE for s in together):
            return "a routine, a padded copy, a window sum or a guarded loop is not fused"
        if len(together) > MOST_STAGES:
            return f"more than {MOST_STAGES} stages"
        known = len(self.classes.parents)
        if self.followed is not None and any(s in self.leading for s in together):
            reason = self._illegal_maps(together) or self._cycle(together)
            return self._settle(together, reason, known)
        reason = self._identify(first, second) or self._cycle(together)
        return self._settle(together, reason or self._illegal(together), known)

    def _settle(self, together: list[Stage], reason: str | None, known: int) -> str | None:
        """Commits a fused group, or undoes the joins that were made for it."""
        if reason is None:
            for stage in together:
                self.members[stage] = together
        else:
            self.classes.back_to(known)
        return reason

    def _identify(self, first: list[Stage], second: list[Stage]) -> str | None:
        """Joins the axes of a read at a producer's own point."""
        inside = set(first)
        for stage in second:
            for read, producer in self.producers(stage):
                if producer not in inside:
                    continue
                if read.buffer.base is not None or len(self.writers[read.buffer]) > 1:
                    return "the value is read under another shape, or has several writers"
                if not producer.direct:
                    return "the producer writes at computed indices"
                if any(isinstance(entry, Expression) for entry in read.entries):
                    return "an index is read from data"
                for own, met in zip(self.units(producer), self.units(read), strict=True):
                    if own is not None and met is not None:
                        self.classes.join(own, met)
        return None

    def _cycle(self, together: list[Stage]) -> str | None:
        """Whether a path leaves the stages and returns, or one overwrites what another reads."""
        if any(s in together for r in together for s in self.overwriters.get(r, ())):
            return "one op overwrites what another one reads"
        inside, last = set(together), max(self.place[s] for s in together)
        todo = [s for t in together for s in self.after(t) if s not in inside]
        seen: set[Stage] = set()
        while todo:
            stage = todo.pop()
            if stage in seen or (self.place[stage] > last and self.members[stage] == [stage]):
                continue
            for member in self.members[stage]:
                seen.add(member)
                for follower in self.after(member):
                    if follower in inside:
                        return "an op outside of the kernel is computed between them"
                    todo.append(follower)
        return None

    def _illegal(self, stages: list[Stage]) -> str | None:
        for stage in stages:
            classes = self.classes.of_all(stage.axes)
            if len(set(classes)) < len(classes):
                return "two axes of one op would become one loop"
        columns = [s for s in stages if s in self.outside]
        products = [s for s in stages if s in self.products]
        if columns and products:
            return "a reduction along outer axes is not fused with a matrix product"
        if columns:
            return self._illegal_columns(stages, columns)
        return self._illegal_products(stages, products) or self._illegal_rows(stages)

    def _illegal_products(self, stages: list[Stage], products: list[Stage]) -> str | None:
        """Checks that products share their rows with all other stages, and that no work is repeated
        per row."""
        if not products:
            return None
        rows, written = self.rows_of(stages), {s.out for s in stages}
        for stage in products:
            contraction = self.products[stage]
            if not self.joins_products(stage.out.dtype):
                return "a library computes products of this dtype"
            if contraction.right.buffer in written:
                return "the right operand of a matrix product is computed before it"
            if self.own_rows(stage) != rows or not rows:
                return "the rows of a matrix product are not common to all"
            depends = set(self.classes.of_all(contraction.right_address.coefficients)) & set(rows)
            if not depends and contraction.left.buffer in written:
                return "the left operand of a matrix product is computed before it"
            if not depends and len(products) > 1:
                return "each block of rows would read two right operands"
        return self._without_block(rows, products)

    def _illegal_maps(self, stages: list[Stage]) -> str | None:
        """Checks whether stages are a product with an epilogue, or computed by a library."""
        first, *more = [s for s in stages if s in self.leading]
        kept = [s.out for s in stages if self._read_outside(s, stages)]
        several = frozenset(b for b, writers in self.writers.items() if len(writers) > 1)
        reason = (
            "a matrix product follows another one"
            if more
            else not_following(first, stages, kept, several)
        )
        if reason is None and self.followed is not None and not self.followed(first, stages, kept):
            return "a library computes the product"
        written = {s.out for s in stages}
        buffers = {read.buffer for s in stages for read in s.loads} - written
        return reason or (
            f"more than {MOST_BUFFERS} arrays" if len(buffers) + len(kept) > MOST_BUFFERS else None
        )

    def _without_block(self, rows: list[Sym], products: list[Stage]) -> str | None:
        """Checks that all products have rows along the last row axis."""
        for stage in products:
            contraction = self.products[stage]
            in_right = set(self.classes.of_all(contraction.right_address.coefficients))
            if rows[-1] in in_right or rows[-1] not in self.classes.of_all(contraction.m):
                return "the rows of a matrix product are not the last axis"
        return None

    def own_rows(self, stage: Stage) -> list[Sym]:
        """Returns the parallel axes of a stage, without the columns of a product."""
        contraction = self.products.get(stage)
        if contraction is None:
            return self.classes.of_all(stage.parallel)
        return self.classes.of_all([a for a in stage.parallel if a not in contraction.n])

    def rows_of(self, stages: Iterable[Stage]) -> list[Sym]:
        """Returns the axes that are parallel in all stages and no product's columns, in order."""
        rows: list[Sym] | None = None
        for stage in stages:
            own = self.own_rows(stage)
            rows = own if rows is None else [axis for axis in rows if axis in own]
        return rows or []

    def _illegal_columns(self, stages: list[Stage], columns: list[Stage]) -> str | None:
        """Checks a reduction along slow axes: it takes maps over all its axes before, and over its
        result after."""
        center = columns[0]
        kept = self.classes.of_all(center.parallel)
        everything = set(self.classes.of_all(center.axes))
        if len(columns) > 1 or any(s.reduce for s in stages if s is not center):
            return "a reduction along outer axes is fused with elementwise ops only"
        for stage in stages:
            own = self.classes.of_all(stage.parallel)
            if not all(self._same_point(r, m) for r, m in self.producers(stage) if m in stages):
                return "another element is read than the one computed"
            if stage is center or (own == kept and self.place[stage] > self.place[center]):
                continue
            if set(own) != everything:
                return "a reduction along outer axes takes elementwise ops over its axes only"
            if self._read_outside(stage, stages):
                return "the operand of a reduction along outer axes is read elsewhere"
        return None

    def _illegal_rows(self, stages: list[Stage]) -> str | None:
        rows = self.rows_of(stages)
        if not rows and any(s.parallel for s in stages) and not self._one_row(stages):
            return "no axis is common to all ops"
        for stage in stages:
            own = self.classes.of_all(stage.parallel)
            if own[: len(rows)] != rows:
                return "the common axes are not the outer ones of each op"
            if stage.reduce and len(own) > len(rows) and stage not in self.products:
                return "a reduction keeps an axis that is not common to all ops"
        inside = {s.out: s for s in stages}
        for stage in stages:
            for read in stage.loads:
                producer = inside.get(read.buffer)
                if producer is not None and not self._same_row(read, producer, rows):
                    return "another row is read than the one computed"
        buffers = {read.buffer for s in stages for read in s.loads} - inside.keys()
        kept = [s for s in stages if self._read_outside(s, stages)]
        return (
            f"more than {MOST_BUFFERS} arrays" if len(buffers) + len(kept) > MOST_BUFFERS else None
        )

    def _same_row(self, read: Load, producer: Stage, rows: list[Sym]) -> bool:
        for own, met in zip(self.units(producer), self.units(read), strict=True):
            shared = None if own is None else self.classes.of(own)
            if shared in rows and (met is None or self.classes.of(met) is not shared):
                return False
        return True

    def _same_point(self, read: Load, producer: Stage) -> bool:
        return self._same_row(read, producer, self.classes.of_all(producer.parallel))

    def _one_row(self, stages: list[Stage]) -> bool:
        """Whether all stages reduce to scalars over one space: then everything is one row."""
        spaces = {frozenset(self.classes.of_all(s.axes)) for s in stages if s.axes}
        maps = [s for s in stages if s.parallel]
        whole = len(spaces) == 1 and not any(s.reduce for s in maps)
        return whole and not any(self._read_outside(s, stages) for s in maps)

    def _read_outside(self, stage: Stage, stages: list[Stage]) -> bool:
        root = stage.out.root
        if root in self.outputs:
            return True
        readers = self.readers.get(root, ())
        return any([r not in stages for r in readers])

    def join_siblings(self) -> None:
        """Fuses maps of the same elements that read a common operand, where that saves memory
        traffic."""
        maps = set(filter(self._is_map, self.stages))
        for readers in self.readers.values():
            siblings: dict[tuple[Dim, ...], Stage] = {}  # the last one of each index space
            for stage in dict.fromkeys(readers) if len(readers) > 1 else ():
                if maps.issuperset(self.members[stage]) and self._has_one_space(
                    self.members[stage]
                ):
                    space = tuple([stage.extents[axis] for axis in stage.parallel])
                    sibling = siblings.get(space, stage)
                    siblings[space] = stage
                    if self.members[sibling] is not self.members[stage]:
                        self._join_sibling(sibling, stage)

    def _is_map(self, stage: Stage) -> bool:
        """Whether a stage computes values element by element, and not in the memory of an input."""
        is_loop = self.kinds[stage] == "loop" and stage.direct and not stage.reduce
        is_free = stage not in self.settled and stage.out.root not in self.in_place
        return is_loop and is_free and len(self.writers[stage.out.root]) == 1

    def _has_one_space(self, members: Sequence[Stage]) -> bool:
        rows = self.classes.of_all(members[0].parallel)
        return all(self.classes.of_all(s.parallel) == rows for s in members)

    def _join_sibling(self, sibling: Stage, stage: Stage) -> None:
        first, second = self.members[sibling], self.members[stage]
        together = sorted([*first, *second], key=self.place.__getitem__)
        start, inside = max(self._first(first), self._first(second)), set(together)
        readers = {r for s in together for r in self.after(s)} - inside
        if len(together) > MOST_STAGES or any(self.place[r] < start for r in readers):
            return  # a result that is read early, while it is in cache, stays early
        known = len(self.classes.parents)
        for own, other in zip(sibling.parallel, stage.parallel, strict=True):
            self.classes.join(own, other)
        reason = self._illegal(together) or self._cycle(together)
        if reason is None:
            kept = {s.out for s in together if self._must_exist(s, together)}
            maps = [[self.classes.renamed(s) for s in members] for members in (first, second)]
            reason = None if save_traffic(maps[0], maps[1], kept) else "it saves no memory traffic"
        self._settle(together, reason, known)

    def join_pieces(self) -> None:
        """Fuses the stages that write one buffer at different offsets, if they share leading
        axes."""
        for writers in self.writers.values():
            for piece in writers[1:]:
                first = writers[0]
                if self.members[first] is not self.members[piece]:
                    self._join_piece(first, piece)

    def _join_piece(self, first: Stage, piece: Stage) -> None:
        together = sorted([*self.members[first], *self.members[piece]], key=self.place.__getitem__)
        plain = all(self.kinds[s] == "loop" and not s.reduce for s in together)
        if not plain or not writes_apart(first, piece) or len(together) > MOST_STAGES:
            return
        known = len(self.classes.parents)
        for own, other in zip(first.write, piece.write, strict=True):
            left = None if isinstance(own, Expression) else dims.as_sym(own)
            right = None if isinstance(other, Expression) else dims.as_sym(other)
            if left is None or right is None:
                break
            self.classes.join(left, right)
        apart = None if self.rows_of(together) else "no axis is common to both"
        self._settle(together, apart or self._cycle(together) or self._illegal(together), known)

    def groups(self) -> list[Group]:
        """Returns the groups, with stages over their common axes, in the order of the program as
        far as dependences allow: values that are computed late do not take memory early."""
        groups = sorted({id(m): m for m in self.members.values()}.values(), key=self._first)
        home = {stage: k for k, members in enumerate(groups) for stage in members}
        edges = {(home[p], k) for stage, k in home.items() for p in self.before(stage)}
        order = topological_order(len(groups), {edge for edge in edges if edge[0] != edge[1]})
        assert order is not None, "fusion made a cycle"
        return [self._group(groups[k]) for k in order]

    def _first(self, members: Iterable[Stage]) -> int:
        return min([self.place[stage] for stage in members])

    def _group(self, members: list[Stage]) -> Group:
        if members[0] in self.settled:
            return self.settled[members[0]]
        kept = frozenset(s.out for s in members if self._must_exist(s, members))
        stages = tuple(self.classes.renamed(s) for s in members)
        if len(members) == 1 and self.kinds[members[0]] != "loop":
            return Group(self.kinds[members[0]], stages, members[0].parallel, kept)
        rows = tuple(self.rows_of(members))
        first = next((s for s in members if s in self.leading), None)
        if first is not None:
            return Group(
                "blocks" if self.followed is None else self.kinds[first], stages, rows, kept
            )
        columns = any(s in self.outside for s in members)
        given = frozenset(b for b in kept if b.root in self.outputs)
        return Group("columns" if columns else "rows", stages, rows, kept, given)

    def _must_exist(self, stage: Stage, members: list[Stage]) -> bool:
        return len(self.writers[stage.out.root]) > 1 or self._read_outside(stage, members)

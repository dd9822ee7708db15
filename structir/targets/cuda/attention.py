"""Recognition of attention: a product whose left factor is a softmax over scores, which are
themselves a product. One kernel computes all of it."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.kernel import computed_in
from structir.loops.fusion.group import Decision
from structir.loops.products.contraction import Contraction
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import (
    Entry,
    Expression,
    Load,
    Operation,
    apply,
    axis_dim,
    cost_of,
    load,
    loads_of,
    rebuilt,
    substituted,
    total,
    walk,
)
from structir.loops.program.stage import LoopProgram, Stage
from structir.loops.rewrite.view_inlining import value_at
from structir.targets.cuda.def_use import DefUse
from structir.targets.cuda.factors import axes_of, factors_of, has_totals, matched, symbols

COMPUTED_IN = ("float32", "float64")
CHEAP = 16.0  # additions: cheaper maps are recomputed for each score
WIDEST = 256  # values with more elements need several passes over the scores


class NoAttentionError(Exception):
    """Why a product is not part of an attention."""


@attrs.frozen
class Attention:
    """result = after(sum over keys of weight * values * factors), where weight is exp(score - most)
    times elementwise factors, and score is computed from queries * keys.

    All expressions use the axes of the second product: `outer` axes, `query` (None for a single
    query), `key`, and `column`. The product of queries and keys is summed over `depth`.
    """

    stages: tuple[Stage, ...]
    extents: dict[Sym, Dim]
    outer: tuple[Sym, ...]
    query: Sym | None
    key: Sym
    column: Sym
    depth: Sym
    queries: Load
    keys: Load
    values: Load
    product: Load  # queries * keys, as the score reads it
    score: Expression
    power: Expression  # exp(score - most)
    most: Buffer
    weight: Expression
    whole: tuple[tuple[Buffer, Expression], ...]  # sums over keys, with their terms
    factors: tuple[tuple[str, Expression], ...]
    mixed: Load  # the second product, as `after` reads it
    after: Expression
    out: Buffer
    write: tuple[Entry, ...]
    kept: frozenset[Buffer]  # row totals that other stages read, too
    writes: dict[Buffer, tuple[Entry, ...]]  # and their write indices

    @property
    def dtype(self) -> str:
        """The dtype of the computation."""
        return self.product.dtype


@attrs.frozen
class Attentions:
    """The attentions of a program, and the reasons why similar products are none."""

    attentions: tuple[Attention, ...]
    refused: tuple[Decision, ...]


def attentions(
    program: LoopProgram, product_of: Callable[[Stage], Contraction | None]
) -> Attentions:
    """Returns all attentions of a program."""
    producers = DefUse(program, product_of)
    matches: list[Attention] = []
    refused: list[Decision] = []
    for mixing in producers.products:
        for score in producers.scores_of(mixing):
            try:
                match = _one(producers, score, mixing, {s for a in matches for s in a.stages})
            except NoAttentionError as error:
                refused.append(Decision(score, mixing, str(error)))
            else:
                matches.append(match)
                break
    return Attentions(tuple(matches), tuple(refused))


def _one(producers: DefUse, scores: Stage, mixing: Stage, taken: set[Stage]) -> Attention:
    """Returns an attention with the maps that follow it, or without them if another attention
    claims them or they read totals that other stages need."""
    match = AttentionMatch(producers, scores, mixing).attention()
    others = [read for read in loads_of(match.after) if read is not match.mixed]
    reads_results = any(read.buffer.root in producers.writers for read in others)
    if taken & set(match.stages) or (match.kept and reads_results):
        match = AttentionMatch(producers, scores, mixing, alone=True).attention()
    if taken & set(match.stages):
        raise NoAttentionError("a part of it is part of another one")
    return match


class AttentionMatch:
    """Matches a product of scores and a product of values as one attention. All expressions are
    rewritten to the axes of the latter."""

    def __init__(
        self, producers: DefUse, scores: Stage, mixing: Stage, alone: bool = False
    ) -> None:
        self.producers, self.scores, self.mixing, self.alone = producers, scores, mixing, alone
        self.dependent = producers.after(scores)
        self.members: dict[Stage, tuple[Entry, ...]] = {}  # and their read indices
        self.sums: dict[Stage, Expression] = {}  # reductions and their terms
        self.extents = dict(mixing.extents)
        if len(mixing.reduce) != 1 or len(scores.reduce) != 1:
            raise NoAttentionError("keys or depths have several axes")
        if set(mixing.axes) & set(scores.axes):
            raise NoAttentionError("both products have axes in common")
        self.key, self.depth = mixing.reduce[0], scores.reduce[0]
        self.extents[self.depth] = scores.extents[self.depth]

    def attention(self) -> Attention:
        """The attention that was matched."""
        weights, values = self._factors()
        weight = self.expanded(weights)
        most, power = self._power(weight)
        inner, factors = self._parted(weight, power)
        queries, keys, product = self._scores()
        if any(part.dtype != self._dtype for part in (weight, values, queries, keys)):
            raise NoAttentionError("scores and values are computed in different dtypes")
        column, query, outer = self._axes(weights, values, keys)
        self._join_totals(power)
        whole = self._whole(most, power)
        last, mixed, after, out, write = self._after()
        kept = self._kept(last)
        members = [*self.members, *self.sums]
        return Attention(
            stages=tuple(sorted(dict.fromkeys(members), key=self.producers.order.__getitem__)),
            extents=self.extents,
            outer=outer,
            query=query,
            key=self.key,
            column=column,
            depth=self.depth,
            queries=queries,
            keys=keys,
            values=values,
            product=product,
            score=power.args[0].args[0],  # type: ignore[attr-defined]
            power=power,
            most=most.out,
            weight=inner,
            whole=whole,
            factors=factors,
            mixed=mixed,
            after=after,
            out=out,
            write=write,
            kept=kept,
            writes={stage.out: self.members[stage] for stage in self.sums},
        )

    # reads, over the axes of the second product

    def _factors(self) -> tuple[Load, Load]:
        """Returns the weights, which depend on the scores, and the values, which do not."""
        factors = loads_of(self.mixing.body)
        ours = [read for read in factors if self._depends(read.buffer)]
        if len(factors) != 2 or len(ours) != 1:
            raise NoAttentionError("both factors depend on the scores")
        (weights,) = ours
        self.members[self.mixing] = self.mixing.write
        return weights, next(read for read in factors if read is not weights)

    def _depends(self, buffer: Buffer) -> bool:
        return any(s in self.dependent for s in self.producers.writers.get(buffer.root, []))

    def expanded(self, expression: Expression) -> Expression:
        """Returns an expression with maps inlined and reductions replaced by totals."""
        return rebuilt(expression, self._leaf)

    def _leaf(self, node: Expression) -> Expression:
        if not isinstance(node, Load):
            return node
        producer = self.producers.producer(node.buffer)
        if producer is None or not (self._depends(node.buffer) or self._is_taken_in(producer)):
            if self._depends(node.buffer):
                raise NoAttentionError("what depends on the scores is seen in another form")
            return node
        self._read_at(producer, node.entries)
        if producer is self.scores:
            return node
        if producer.reduce:
            self._reduced(producer, node)
            return total(producer.out)
        value = value_at(producer, node.entries, exact=False)
        if value is None:
            raise NoAttentionError("an index is read from data")
        return self.expanded(value)

    def _is_taken_in(self, producer: Stage) -> bool:
        """Whether a map that does not depend on the scores is recomputed where it is read: it is
        cheap, or as large as the scores and read by nothing else."""
        if producer.reduce or producer.out.root in self.producers.outputs:
            return False
        sizes = {axis for axis in producer.parallel if producer.extents[axis] != 1}
        large = len(sizes) >= len([a for a in self.scores.parallel if self.scores.extents[a] != 1])
        cost = sum(cost_of(n.fn) for n in walk(producer.body) if isinstance(n, Operation))
        here = all(self._leads_here(reader) for reader in self.producers.read_by(producer))
        return here and (large or cost < CHEAP)

    def _leads_here(self, stage: Stage) -> bool:
        """Whether all results of a stage are used only by maps that depend on the scores."""
        if stage.reduce or not stage.direct or stage.out.root in self.producers.outputs:
            return False
        following = self.producers.read_by(stage)
        return stage in self.dependent or all(self._leads_here(reader) for reader in following)

    def _read_at(self, producer: Stage, entries: tuple[Entry, ...]) -> None:
        known = self.members.setdefault(producer, entries)
        if known != entries and producer in self.dependent:
            raise NoAttentionError("scores of another point are read")

    def _reduced(self, producer: Stage, read: Load) -> None:
        """Registers a reduction along the keys."""
        if producer in self.sums:
            return
        value = value_at(producer, read.entries, exact=False)
        axes = [axis for e in read.entries for axis in symbols(e)]
        if value is None or len(producer.reduce) != 1 or self.key in axes:
            raise NoAttentionError("a reduction is along other axes than the keys")
        if producer.extents[producer.reduce[0]] != self.extents[self.key]:
            raise NoAttentionError("a reduction is over other keys")
        body = substituted(value, {producer.reduce[0]: axis_dim(self.key)})
        if body is None or computed_in(producer.out.dtype) != self._dtype:
            raise NoAttentionError("a reduction is of another dtype")
        self.sums[producer] = self.expanded(body)

    @property
    def _dtype(self) -> str:
        return computed_in(self.mixing.out.dtype)

    # ---- weights

    def _power(self, weight: Expression) -> tuple[Stage, Operation]:
        """Returns exp(score - most), where most is the row maximum of the scores."""
        for node in walk(weight):
            if isinstance(node, Operation) and node.fn == "exp":
                (below,) = node.args
                if isinstance(below, Operation) and below.fn == "sub":
                    score, most = below.args
                    for stage, body in self.sums.items():
                        if stage.monoid == "max" and body is score and most is total(stage.out):
                            return stage, node
        raise NoAttentionError("the weights are no powers of what is less than a row's maximum")

    def _parted(
        self, weight: Expression, power: Expression
    ) -> tuple[Expression, tuple[tuple[str, Expression], ...]]:
        """Splits a product with the power into the rest and the factors that are constant along the
        keys, in the order in which they apply."""
        weight_factors = factors_of(weight, power)
        factors = [f for f in weight_factors or () if self._is_of_row(f[1])]
        beside = [f for f in weight_factors or () if not self._is_of_row(f[1])]
        if weight_factors is None or any(has_totals(factor) for _, factor in beside):
            raise NoAttentionError("a weight is no product with a power")
        for fn, factor in beside:
            power = apply(fn, (power, factor), power.dtype)
        return power, tuple(factors)

    def _is_of_row(self, node: Expression) -> bool:
        """Whether a value is the same for all keys of a query."""
        return self.key not in axes_of(node)

    def _whole(self, most: Stage, power: Expression) -> tuple[tuple[Buffer, Expression], ...]:
        bodies = []
        for stage, body in self.sums.items():
            if stage is not most:
                factors = factors_of(body, power)
                if (
                    stage.monoid != "sum"
                    or factors is None
                    or any(has_totals(f) for _, f in factors)
                ):
                    raise NoAttentionError("a reduction along the keys is no sum of powers")
                bodies.append((stage.out, body))
        return tuple(bodies)

    def _join_totals(self, power: Expression) -> None:
        """Adds sums of parts of the weights that are read only after the product."""
        for member in list(self.members):
            for reader in self.producers.read_by(member):
                if member is self.mixing or reader in self.members or reader.monoid != "sum":
                    continue
                if reader in self.producers.products or not reader.direct:
                    continue
                read = next(x for x in reader.loads if x.buffer is member.out)
                at = matched(read.entries, self.members[member])
                axes = [None if isinstance(e, Expression) else dims.as_sym(e) for e in reader.write]
                entries = tuple([0 if axis is None else at.get(axis, 0) for axis in axes])
                self.expanded(load(reader.out, entries))

    # ---- scores

    def _scores(self) -> tuple[Load, Load, Load]:
        """Returns queries and keys over the axes of the second product, and the read of their
        product."""
        entries = self.members.get(self.scores, ())
        at = matched(self.scores.write, entries) if entries else {}
        body = value_at(self.scores, entries, exact=False) if entries else None
        if body is None or not all(self._is_whole(a, at.get(a)) for a in self.scores.parallel):
            raise NoAttentionError("the scores are read at other points")
        if computed_in(self.scores.out.dtype) != self._dtype or self._dtype not in COMPUTED_IN:
            raise NoAttentionError("scores and values are computed in different dtypes")
        of_keys = [x for x in loads_of(body) if self.key in axes_of(x)]
        others = [x for x in loads_of(body) if self.key not in axes_of(x)]
        if len(of_keys) != 1 or len(others) != 1:
            raise NoAttentionError("the scores are no product of queries and keys")
        return others[0], of_keys[0], load(self.scores.out, entries)

    def _is_whole(self, axis: Sym, at: Dim | None) -> bool:
        """Whether an axis of the scores corresponds to one axis of the second product."""
        own = None if at is None else dims.as_sym(at)
        return at == 0 if own is None else self.extents.get(own) == self.scores.extents[axis]

    def _axes(
        self, weights: Load, values: Load, keys: Load
    ) -> tuple[Sym, Sym | None, tuple[Sym, ...]]:
        """Returns the columns of the result, the rows that share keys and values, and all other
        axes."""
        rows = axes_of(weights)
        columns = [a for a in self.mixing.parallel if a not in rows]
        if len(columns) != 1:
            raise NoAttentionError("values have several axes")
        width = self.extents[columns[0]]
        if isinstance(width, int) and width > WIDEST:
            raise NoAttentionError(f"values have {width} elements: scores would be made repeatedly")
        shared = axes_of(keys) | axes_of(values)
        alike = [a for a in self.mixing.parallel if a in rows and a not in shared]
        query = max(alike, key=self._length, default=None)
        outer = [a for a in self.mixing.parallel if a is not columns[0] and a is not query]
        return columns[0], query, tuple(outer)

    def _length(self, axis: Sym) -> float:
        extent = self.extents[axis]
        return extent if isinstance(extent, int) else float("inf")

    # epilogue

    def _after(self) -> tuple[Stage, Load, Expression, Buffer, tuple[Entry, ...]]:
        """Returns the maps that only this result is used by, inlined one after another."""
        last = self.mixing
        mixed = load(last.out, last.write)
        after: Expression = mixed
        write: tuple[Entry, ...] = last.write
        while not self.alone and (step := self._following(last, after, write)) is not None:
            last, after, write = step
        return last, mixed, after, last.out, write

    def _following(
        self, last: Stage, value: Expression, write: tuple[Entry, ...]
    ) -> tuple[Stage, Expression, tuple[Entry, ...]] | None:
        readers = set(self.producers.read_by(last))
        if (
            len(readers) != 1
            or self.producers.producer(last.out) is not last
            or last.out.root in self.producers.outputs
        ):
            return None
        (reader,) = readers
        own = [x for x in reader.loads if x.buffer is last.out]
        if self.producers.producer(reader.out) is not reader or reader.reduce or len(own) != 1:
            return None
        at = matched(own[0].entries, write)
        axes = {a: at[a] for a in reader.parallel if a in at}
        extents = [self.extents.get(dims.as_sym(e)) for e in axes.values()]  # type: ignore[arg-type]
        same = len(axes) == len(reader.parallel) == len(set(axes.values()))
        if not same or extents != [reader.extents[a] for a in axes]:
            return None
        moved = substituted(reader.body, axes)
        if moved is None or not self._is_free(moved, last):
            return None
        entries = tuple([dims.substitute(e, axes) for e in reader.write])  # type: ignore[arg-type]
        held = {x for x in loads_of(moved) if x.buffer is last.out}
        self.members[reader] = entries
        rewritten = rebuilt(moved, lambda n: value if n in held else self._row_total(n))
        return reader, rewritten, entries

    def _is_free(self, body: Expression, last: Stage) -> bool:
        """Whether everything else that a map reads is computed before, or is a total of the row."""
        others = [x for x in loads_of(body) if x.buffer is not last.out]
        totals = {stage.out: self.members[stage] for stage in self.sums}
        return all(totals.get(x.buffer) == x.entries or not self._depends(x.buffer) for x in others)

    def _row_total(self, node: Expression) -> Expression:
        ours = isinstance(node, Load) and any(s.out is node.buffer for s in self.sums)
        return total(node.buffer) if ours and isinstance(node, Load) else node

    def _kept(self, last: Stage) -> frozenset[Buffer]:
        """Returns totals that other stages read. No other intermediate value may have further
        users."""
        for stage in sorted(self.members, key=self.producers.order.__getitem__, reverse=True):
            if self._is_read_outside(stage) and stage not in self.dependent:
                del self.members[stage]
        kept = [stage for stage in self.members if self._is_read_outside(stage)]
        if any(stage is not last and stage not in self.sums for stage in kept):
            raise NoAttentionError("scores or weights are read elsewhere")
        return frozenset([stage.out for stage in kept if stage is not last])

    def _is_read_outside(self, stage: Stage) -> bool:
        readers = self.producers.read_by(stage)
        return stage.out.root in self.producers.outputs or any(
            r not in self.members for r in readers
        )

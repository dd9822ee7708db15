"""Minimal filtering (Winograd, 1980): convolutions of three taps per axis with fewer products.

Along an axis, two neighbouring results of three taps are sums of four products instead of six:

    m0 = (d0 - d2) g0                   y0 = m0 + m1 + m2
    m1 = (d1 + d2) (g0 + g1 + g2) / 2   y1 = m1 - m2 - m3
    m2 = (d2 - d1) (g0 - g1 + g2) / 2
    m3 = (d1 - d3) g2

y0 depends on d0, d1, d2 alone, and y1 on d1, d2, d3. So an infinity or NaN reaches the results that
see it, and no others. In two dimensions (Lavin and Gray, 2016), a tile of 2 x 2 results is the
transform along both axes: 16 products per channel instead of 36. The sums over channels are matrix
products of the transformed image, a line per tile, and of the transformed weights, a constant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import product as points
from math import prod
from typing import Any

import attrs
import numpy as np

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.loops.products.choice import is_faster_by_minimal_filtering
from structir.loops.products.contraction import factors_of
from structir.loops.products.packing import elements_of
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import (
    Entry,
    Expression,
    Load,
    Operation,
    apply,
    axis_dim,
    load,
)
from structir.loops.program.stage import LoopProgram, Stage
from structir.loops.rewrite.correlations import axes_in
from structir.loops.rewrite.im2col import CopyPlan, WindowIndex, WindowRewrite

Terms = tuple[tuple[int, bool], ...]  # of a sum: indices, and whether the term is subtracted

TAPS, RESULTS, PRODUCTS = 3, 2, 4  # of a tile, along one axis
TOGETHER = 16  # channels whose weights are transformed at once
ROUNDOFF = 2.0**-24
IMAGE: tuple[Terms, ...] = (
    ((0, False), (2, True)),
    ((1, False), (2, False)),
    ((2, False), (1, True)),
    ((1, False), (3, True)),
)
FILTERS = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
SUMS: tuple[Terms, ...] = (
    ((0, False), (1, False), (2, False)),
    ((1, False), (2, True), (3, True)),
)


def with_minimal_filters(program: LoopProgram) -> LoopProgram:
    """Returns the program with its convolutions by minimal filtering, where they are faster."""
    stages = [part for stage in program.stages for part in _filtered(stage) or [stage]]
    return attrs.evolve(program, stages=tuple(stages))


def _filtered(stage: Stage) -> list[Stage] | None:
    factors = factors_of(stage) if _is_plain(stage) else None
    for weights, image in (factors, factors[::-1]) if factors is not None else ():
        convolution = _convolution(stage, weights, image)
        if convolution is not None:
            filters = convolution.filters()
            return None if filters is None else _FilterStages(convolution, filters).stages()
    return None


def _is_plain(stage: Stage) -> bool:
    """Whether each result is a sum over all terms, in any order and rounding."""
    body = stage.body
    plain = stage.unique and stage.exists is None and stage.running is None
    plain = plain and stage.routine is None and stage.monoid == "sum"
    plain = plain and stage.out.dtype == "float32" and not stage.pinned
    plain = plain and not any(isinstance(entry, Expression) for entry in stage.write)
    return plain and isinstance(body, Operation) and not body.exact


@attrs.frozen
class Convolution:
    """out[batch, o, y...] = sum over c, i... of image[batch, c, y + i...] * weights[o, c, i...]."""

    stage: Stage
    weights: Load
    image: Load
    windows: Mapping[int, WindowIndex]  # by the axis of the image
    batch: tuple[Sym, ...]
    filters_axis: Sym
    channels: Sym

    @property
    def lines(self) -> tuple[Sym, ...]:
        """The axes of the results of a filter, slowest first."""
        return tuple([w.axis for _, w in sorted(self.windows.items()) if w.axis is not None])

    @property
    def taps(self) -> tuple[Sym, ...]:
        """The axes of the weights of a filter, in the same order."""
        return tuple([w.taps[0][0] for _, w in sorted(self.windows.items())])

    def filters(self) -> Any:
        """Returns the transformed weights, as (products, channels, filters); None if they are
        unknown, or if some are not finite."""
        axes = (self.channels, self.filters_axis, *self.taps)
        values = elements_of(self.weights, {axis: self.stage.extents[axis] for axis in axes})
        if values is None:
            return None
        transform = reduce(np.kron, [FILTERS] * len(self.taps))
        filters = np.empty((len(transform), *values.shape[:2]), np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(values), TOGETHER):  # the parts fit into the cache
                part = values[start : start + TOGETHER].astype(np.float64, "C")
                products = transform @ part.reshape(-1, transform.shape[1]).T
                into = filters[:, start : start + TOGETHER]
                into[:] = products.reshape(into.shape)
                if not np.isfinite(into).all():
                    return None
        greatest = np.abs(filters).max(axis=(0, 1), initial=0)
        is_tiny = (greatest > 0) & (greatest < np.finfo(np.float32).tiny / ROUNDOFF)
        return None if is_tiny.any() else filters  # subnormal numbers have fewer digits


def _convolution(stage: Stage, weights: Load, image: Load) -> Convolution | None:
    """Returns the convolution that a stage is, if minimal filtering is its fastest form."""
    if weights.buffer.root.data is None:
        return None
    used = [{a for e in read.entries for a in axes_in(e, stage)} for read in (weights, image)]
    rewrite = WindowRewrite(stage, image, [a for a in stage.parallel if a in used[1]], 0.0)
    windows = {k: w for k, w in rewrite.windows.items() if w.taps}
    if not rewrite.fits or len(windows) < len(rewrite.windows) or len(windows) != 2:
        return None
    for window in windows.values():
        sizes = [stage.extents[tap] for tap, _ in window.taps]
        steps = [window.step, *[apart for _, apart in window.taps]]
        if window.axis is None or sizes != [TAPS] or steps != [1, 1]:
            return None
    lines, taps = {w.axis for w in windows.values()}, {w.taps[0][0] for w in windows.values()}
    batch = tuple([a for a in stage.parallel if a not in used[0] and a not in lines])
    filters = [a for a in stage.parallel if a in used[0]]
    channels = [a for a in stage.reduce if a not in taps]
    if len(filters) != 1 or len(channels) != 1 or filters[0] in used[1]:
        return None
    if not {*taps, *channels} <= used[0] or channels[0] not in used[1]:
        return None
    if len(lines) < len(windows) or len(taps) < len(windows):
        return None  # windows along a diagonal
    others = [e for k, e in enumerate(image.entries) if k not in windows and e != 0]
    symbols = [None if isinstance(e, Expression) else dims.as_sym(e) for e in others]
    if symbols.count(channels[0]) != 1 or not {*symbols} <= {*batch, *channels}:
        return None
    convolution = Convolution(stage, weights, image, windows, batch, filters[0], channels[0])
    numbers = stage.extents[filters[0]], stage.extents[channels[0]]
    lengths = [stage.extents[axis] for axis in convolution.lines]
    images = prod(stage.extents[axis] for axis in batch)
    if not is_faster_by_minimal_filtering(*numbers, images, lengths):
        return None
    return convolution


class _FilterStages:
    """The stages of a convolution by minimal filtering."""

    def __init__(self, convolution: Convolution, filters: Any) -> None:
        self.convolution, self.stage = convolution, convolution.stage
        self.filters = Buffer(filters.shape, "float32", "constant", data=filters)
        extents = self.stage.extents
        self.counts = [dims.ceildiv(extents[axis], RESULTS) for axis in convolution.lines]
        self.sizes = [*[extents[axis] for axis in convolution.batch], *self.counts]
        self.tile = Sym("tile")
        self.line = {self.tile: prod(self.sizes)}  # the axis of the lines of the products
        position = self._position()
        self.outer, self.corner = position[: -len(self.counts)], position[-len(self.counts) :]

    def _position(self) -> list[Dim]:
        """Returns the position of a tile in the batch and in the image."""
        rest, position = axis_dim(self.tile), list[Dim]()
        for size in self.sizes[:0:-1]:
            position.insert(0, dims.floormod(rest, size))
            rest = dims.floordiv(rest, size)
        return [rest, *position]

    def stages(self) -> list[Stage]:
        """Returns the copy of the image with channels last, the transforms, the products, the
        results with filters last, and their move to where the convolution writes them."""
        copy, read = self._copy()
        reads = self._reads(read)
        new_stages, totals = [copy], dict[tuple[int, ...], Load]()
        order = sorted(points(range(PRODUCTS), repeat=len(self.counts)), key=_is_in_all_sums)
        for at in order:
            number = int(np.ravel_multi_index(at, (PRODUCTS,) * len(at)))
            transformed = self._transformed(reads, at)
            product = self._product(transformed.out, number)
            new_stages += [transformed, product]
            totals[at] = load(product.out, product.write)
        filters = self.convolution.filters_axis
        sizes = [*self.sizes[: len(self.outer)], *[count * RESULTS for count in self.counts]]
        out = Buffer((*sizes, self.stage.extents[filters]), "float32")
        for at in points(range(RESULTS), repeat=len(self.counts)):
            write = (*self.outer, *self._corner(at), axis_dim(filters))
            new_stages.append(self._map(out, filters, _sum(totals, SUMS, at), write))
        return [*new_stages, self._moved(out)]

    def _copy(self) -> tuple[Stage, Load]:
        """Returns the copy of the image as [batch, lines..., channels], with a border that makes
        whole tiles; and its read at the first corner of a tile."""
        convolution, read = self.convolution, self.convolution.image
        counts = dict(zip(sorted(convolution.windows), self.counts, strict=True))
        at = dict(zip(convolution.batch, self.outer, strict=True))
        at[convolution.channels] = axis_dim(convolution.channels)
        plan, old = CopyPlan(read.buffer), dict[int, Dim]()
        for k in sorted(range(len(read.entries)), key=self._order):
            if k in counts:
                place = self.corner[sorted(counts).index(k)] * RESULTS
                old[k] = plan.axis(counts[k] * RESULTS + TAPS - 1, place)
                old[k] = old[k] + convolution.windows[k].start
                plan.bound(old[k], convolution.windows[k])
            else:
                symbol = dims.as_sym(read.entries[k])  # type: ignore[arg-type]
                entry = 0 if symbol is None else at[symbol]
                old[k] = plan.axis(read.buffer.shape[k], entry)
        return plan.stage([old[k] for k in range(len(old))], 0.0, self.stage.origin)

    def _order(self, k: int) -> int:
        """Returns the order of an axis of the image in the copy."""
        if k in self.convolution.windows:
            return 1
        entry = self.convolution.image.entries[k]
        return 2 if entry == axis_dim(self.convolution.channels) else 0

    def _reads(self, read: Load) -> dict[tuple[int, ...], Load]:
        """Returns the reads of the image for a tile."""
        first = len(read.entries) - 1 - len(self.counts)
        reads = dict[tuple[int, ...], Load]()
        for moved in points(range(RESULTS + TAPS - 1), repeat=len(self.counts)):
            entries = list(read.entries)
            for k, by in enumerate(moved, first):
                entries[k] = entries[k] + by  # type: ignore[operator]
            reads[moved] = load(read.buffer, tuple(entries))
        return reads

    def _transformed(self, reads: Mapping[tuple[int, ...], Load], at: tuple[int, ...]) -> Stage:
        """Returns the left operand of a product, a line of channels for each tile."""
        channels = self.convolution.channels
        out = Buffer((self.line[self.tile], self.stage.extents[channels]), "float32")
        write = axis_dim(self.tile), axis_dim(channels)
        return self._map(out, channels, _sum(reads, IMAGE, at), write)

    def _product(self, transformed: Buffer, number: int) -> Stage:
        """Returns the product of the lines of a transform and its weights."""
        filters, channels = self.convolution.filters_axis, self.convolution.channels
        size = self.stage.extents[filters]
        out = Buffer((self.line[self.tile], size), "float32")
        tile, channel, column = map(axis_dim, (self.tile, channels, filters))
        factors = load(transformed, (tile, channel)), load(self.filters, (number, channel, column))
        extents = {**self.line, filters: size, channels: self.stage.extents[channels]}
        body, axes = apply("mul", factors, "float32"), (self.tile, filters)
        origin = self.stage.origin
        return Stage(out, axes, (channels,), extents, body, (tile, column), "sum", origin=origin)

    def _corner(self, at: tuple[int, ...]) -> list[Dim]:
        """Returns the position of a result of a tile."""
        return [corner * RESULTS + by for corner, by in zip(self.corner, at, strict=True)]

    def _map(self, out: Buffer, axis: Sym, body: Expression, write: tuple[Entry, ...]) -> Stage:
        """Returns a map over the tiles and another axis."""
        extents = {**self.line, axis: self.stage.extents[axis]}
        return Stage(out, (self.tile, axis), (), extents, body, write, origin=self.stage.origin)

    def _moved(self, out: Buffer) -> Stage:
        """Returns the move of the results, without those past the ends of lines."""
        convolution, stage = self.convolution, self.stage
        order = (*convolution.batch, convolution.filters_axis, *convolution.lines)
        last = (*convolution.batch, *convolution.lines, convolution.filters_axis)
        extents = {axis: stage.extents[axis] for axis in order}
        body = load(out, tuple([axis_dim(axis) for axis in last]))
        return Stage(stage.out, order, (), extents, body, stage.write, origin=stage.origin)


def _is_in_all_sums(at: tuple[int, ...]) -> bool:
    """Whether all results of a tile need a product. These come last: then the transforms are one
    loop before all products, and the results one loop after them."""
    return all(index in (1, 2) for index in at)


def _sum(
    terms: Mapping[tuple[int, ...], Expression], sums: Sequence[Terms], at: tuple[int, ...]
) -> Expression:
    """Returns a sum of sums: along the last axis, of those along the axes before it."""
    if not at:
        return terms[()]
    *before, last = at
    total: Expression | None = None
    for index, is_subtracted in sums[last]:
        inner = {key[:-1]: term for key, term in terms.items() if key[-1] == index}
        term = _sum(inner, sums, tuple(before))
        name = "sub" if is_subtracted else "add"
        total = term if total is None else apply(name, (total, term), term.dtype)
    assert total is not None
    return total

"""im2col and related rewrites of stages that read through moving windows: the operand is copied
once, with its border filled and its steps split, so that every read is at `axis + offset` and
exists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.dtype import is_float
from structir.ir.kernel import computed_in
from structir.loops.lower.rounding import rounded
from structir.loops.products.contraction import contraction_of, factors_of, is_by_constant
from structir.loops.products.packing import elements_of
from structir.loops.program.access import leaves, split
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import (
    Entry,
    Expression,
    Load,
    Number,
    apply,
    axis_dim,
    cast,
    load,
    loads_of,
    number,
    position,
    rebuilt,
    substituted,
)
from structir.loops.program.stage import Guard, LoopProgram, Stage
from structir.loops.rewrite.correlations import as_product_of_pixels, axes_in, overlaps
from structir.loops.rewrite.scatters import gathered
from structir.loops.rewrite.window_sums import is_faster_than_product
from structir.projections.monoid import MONOIDS

MOST_TERMS = 32  # terms of a window that is unrolled, so that its results form a vector
WRITTEN_OUT = {"sum": "add", "max": "max", "min": "min"}


def plain_windows(program: LoopProgram) -> LoopProgram:
    """Rewrites the windows of a program where their stages have a better schedule then."""
    products = {s: p for s in program.stages if (p := _as_products(s)) is not None}
    whole = {stage.out for stage in products}
    stages = list[Stage]()
    for stage in program.stages:
        if stage.out in whole and isinstance(stage.body, Number):
            continue  # the initial value of sums, which are written completely now
        stages += products[stage] if stage in products else _plain(stage)
    return attrs.evolve(program, stages=tuple(stages))


def _as_products(stage: Stage) -> list[Stage] | None:
    """Returns a scattered sum of products of weights and moving reads, as products."""
    if stage.written_axes is not None:  # it is no scattered sum
        return None
    parts = gathered(stage) or []
    products = [_as_product(part) for part in parts]
    return [s for stages in products for s in stages or []] if products and all(products) else None


def _plain(stage: Stage) -> list[Stage]:
    if not _is_candidate(stage) or (stage.reads_at_axes and stage.monoid != "mean"):
        return [stage]
    if is_by_constant(stage) or is_faster_than_product(stage):
        return [stage]
    product = as_product_of_pixels(stage) or _as_product(stage)
    return product or _as_mean(stage) or _as_map(stage) or [stage]


def _is_candidate(stage: Stage) -> bool:
    plain = stage.unique and stage.exists is None and stage.running is None
    plain = plain and stage.routine is None
    plain = plain and not any(isinstance(e, Expression) for e in stage.write)
    return bool(stage.reduce) and plain and not stage.pinned


@attrs.frozen
class WindowIndex:
    """An index `step * axis + sum(apart * tap) + start`; elements exist from `low` to before
    `stop`, as the guards say, or the ends of the operand's axis."""

    axis: Sym | None
    step: int
    taps: tuple[tuple[Sym, int], ...]
    start: Dim
    low: Dim
    stop: Dim

    @property
    def moves(self) -> bool:
        """Whether it is more than an axis."""
        return bool(self.taps) or self.step > 1


def _window(entry: Entry, low: Dim, stop: Dim, stage: Stage) -> WindowIndex | None:
    """Returns the form of an index that moves in whole positive steps along at most one parallel
    axis."""
    if isinstance(entry, Expression):
        return None
    parts, rest = split(entry, stage.axes)
    if dims.syms(rest) & set(stage.axes) or not all(isinstance(c, int) for c in parts.values()):
        return None
    steps = {a: c for a, c in parts.items() if isinstance(c, int) and c > 0}
    outer = [a for a in steps if a in stage.parallel]
    if len(steps) < len(parts) or len(outer) > 1:
        return None
    axis = outer[0] if outer else None
    taps = tuple([(a, c) for a, c in steps.items() if a is not axis])
    return WindowIndex(axis, steps[axis] if axis is not None else 1, taps, rest, low, stop)


def _guards_of(entry: Entry, stage: Stage) -> dict[Dim, tuple[Dim | None, Dim | None]]:
    """Returns the guards that bound an index by an expression without axes: from below, or from
    above."""
    if isinstance(entry, Expression):
        return {}
    bounds: dict[Dim, tuple[Dim | None, Dim | None]] = {}
    axes = set(stage.axes)
    if not dims.syms(entry) & axes:
        return {}
    for guard in stage.guards:
        below, above = entry - guard.value, entry + guard.value
        if not dims.syms(below) & axes:
            bounds[guard.value] = (below, None)
        elif not dims.syms(above) & axes:
            bounds[guard.value] = (None, above)
    return bounds


class WindowRewrite:
    """Rewrites one read of a stage to a plain read of a copy."""

    def __init__(self, stage: Stage, read: Load, columns: Sequence[Sym], filled: float) -> None:
        self.stage, self.read, self.filled = stage, read, filled
        self.windows: dict[int, WindowIndex] = {}
        self.fits = True
        guards = {g.value for g in stage.guards}
        for k, (entry, size) in enumerate(zip(read.entries, read.buffer.shape, strict=True)):
            own = _guards_of(entry, stage)
            lows = [low for low, _ in own.values() if low is not None]
            lasts = [last for _, last in own.values() if last is not None]
            single = len(lows) <= 1 and len(lasts) <= 1
            low, stop = (lows or [0])[0], (lasts or [size - 1])[0] + 1
            window = _window(entry, low, stop, stage) if single else None
            moves = window is not None and window.axis in columns and window.moves
            if own or moves:
                self.fits = self.fits and window is not None
                if window is not None:
                    self.windows[k] = window
            guards -= own.keys()
        self.fits = self.fits and not guards and bool(self.windows)

    def has_steps(self) -> bool:
        """Whether some window moves by more than one element."""
        return any(w.step > 1 for w in self.windows.values())

    def needed(self, apart: bool = True) -> bool:
        """Whether the operand needs a copy."""
        last = len(self.read.entries) - 1
        steps = apart and self.has_steps()
        return bool(self.stage.guards) or steps or last not in self.windows

    def copied(self, apart: bool = True) -> tuple[Stage, Load]:
        """Returns the stage of the copy, and its read in place of the old one. Axes without windows
        come first, then the positions within a step if steps are split, then the window axes."""
        copy = CopyPlan(self.read.buffer)
        old: dict[int, Dim] = {}
        for k, size in enumerate(self.read.buffer.shape):
            if k not in self.windows:
                old[k] = copy.axis(size, self.read.entries[k])
        steps = {k: w.step if apart else 1 for k, w in self.windows.items()}
        within = {k: self._within(w, copy) if apart else 0 for k, w in self.windows.items()}
        *lines, last = self.windows
        shared = self._shared_border(self.windows[last]) if lines else 0
        for k, window in self.windows.items():
            place = axis_dim(window.axis) if window.axis is not None else 0
            length = self._length(window, steps[k]) - (shared if k == last else 0)
            length = length + 1 if shared and lines and k == lines[-1] else length
            reach = dims.floordiv(self._reach(window), steps[k])
            own = copy.axis(length, place * (window.step // steps[k]) + reach)
            old[k] = own * steps[k] + within[k] + window.start
            copy.bound(old[k], window)
        return copy.stage([old[k] for k in range(len(old))], self.filled, self.stage.origin)

    def _within(self, window: WindowIndex, copy: CopyPlan) -> Dim:
        """Returns the axis of positions within a step, as many as are read."""
        count = dims.dim_min(window.step, self._farthest(window) + 1)
        return (
            copy.axis(count, dims.floormod(self._reach(window), window.step)) if count != 1 else 0
        )

    def _length(self, window: WindowIndex, step: int) -> Dim:
        """Returns the number of positions that are read, rounded up, in units of so many."""
        moves = self._extent(window) * (window.step // step)
        return moves + dims.floordiv(self._farthest(window), step)

    def _shared_border(self, window: WindowIndex) -> int:
        """Returns how much of the border after a line can be the border before the next one. Reads
        go that far past the end of their line; there is one more line after the last."""
        before = window.low - window.start
        after = self._length(window, 1) + window.start - window.stop
        if window.step > 1 or not isinstance(before, int) or not isinstance(after, int):
            return 0
        return max(min(before, after), 0)

    def _extent(self, window: WindowIndex) -> Dim:
        return self.stage.extents[window.axis] if window.axis is not None else 1

    def _reach(self, window: WindowIndex) -> Dim:
        reach: Dim = 0
        for tap, apart in window.taps:
            reach = reach + axis_dim(tap) * apart
        return reach

    def _farthest(self, window: WindowIndex) -> Dim:
        reach: Dim = 0
        for tap, apart in window.taps:
            reach = reach + (self.stage.extents[tap] - 1) * apart
        return reach


class CopyPlan:
    """A copy under construction: its axes in order, and its read."""

    def __init__(self, source: Buffer) -> None:
        self.source = source
        self.shape: list[Dim] = []
        self.entries: list[Entry] = []
        self.write: list[Dim] = []
        self.extents: dict[Sym, Dim] = {}
        self.guards: list[Guard] = []

    def axis(self, size: Dim, read_at: Entry) -> Dim:
        """Adds an axis, and returns its index; an axis of size 1 has index 0."""
        self.shape.append(size)
        self.entries.append(0 if size == 1 and not isinstance(read_at, Expression) else read_at)
        offset: Dim = 0
        if size != 1:
            offset = dims.sym("x")
            symbol = dims.as_sym(offset)
            assert symbol is not None
            self.extents[symbol] = size
        self.write.append(offset)
        return offset

    def bound(self, index: Dim, window: WindowIndex) -> None:
        """Fills the elements whose index is outside of the part of a window that exists."""
        self.guards += [Guard(index - window.low), Guard(window.stop - 1 - index)]

    def stage(self, at: list[Dim], filled: float, origin: str) -> tuple[Stage, Load]:
        """Returns the stage, and the read of the copy."""
        out = Buffer(tuple(self.shape), self._dtype(filled))
        guards = tuple([g for g in self.guards if not self._holds(g.value)])
        new_stage = Stage(
            out,
            tuple(self.extents),
            (),
            self.extents,
            load(self.source, tuple(at)),
            tuple(self.write),
            guards=guards,
            otherwise=number(filled, computed_in(out.dtype)) if guards else None,
            origin=origin,
        )
        return new_stage, load(out, tuple(self.entries))

    def _dtype(self, filled: float) -> str:
        """Returns the dtype of the copy: that of the source, if it has a code for the border."""
        dtype = self.source.dtype
        own = rounded(number(filled, computed_in(dtype)), dtype)
        return dtype if isinstance(own, Number) and own.value == filled else computed_in(dtype)

    def _holds(self, value: Dim) -> bool:
        """Whether a guard holds at all points."""
        least = value
        for axis, extent in self.extents.items():
            linear = dims.linear(least, axis)
            if linear is None or not isinstance(linear[0], int):
                return False
            least = linear[1] + (linear[0] * (extent - 1) if linear[0] < 0 else 0)
        return dims.at_least(least, 0) is True


def _as_product(stage: Stage) -> list[Stage] | None:
    """Returns a sum of products of weights and moving reads, as one with a plain right operand."""
    if stage.monoid != "sum" or (factors := factors_of(stage)) is None:
        return None
    for left, right in (factors, factors[::-1]):
        weights = {a for e in left.entries for a in axes_in(e, stage)}
        columns = [a for a in stage.parallel if a not in weights]
        rewrite = WindowRewrite(stage, right, _moving(right, columns), 0.0)
        if not rewrite.fits or (stage.guards and leaves(left, stage.axes, stage.extents)):
            continue
        row = None if weights & set(stage.parallel) else _lone_row(left)
        product = _product(stage, left, right, rewrite, row)
        if product is not None:
            return product
    return None


@attrs.frozen
class LoneRow:
    """The axis of the weights' only row, and the weights read along it."""

    axis: Sym
    left: Load


def _lone_row(left: Load) -> LoneRow | None:
    """Returns the axis of size 1 that weights for one result have, if any."""
    for k, (entry, size) in enumerate(zip(left.entries, left.buffer.shape, strict=True)):
        if size == 1 and not isinstance(entry, Expression) and entry == 0:
            row = dims.sym("row")
            axis = dims.as_sym(row)
            assert axis is not None
            entries = (*left.entries[:k], row, *left.entries[k + 1 :])
            return LoneRow(axis, load(left.buffer, entries))
    return None


def _moving(read: Load, columns: list[Sym]) -> list[Sym]:
    """Returns the columns along which a read moves, without those that are alone in an index."""
    reduced = [e for e in read.entries if not isinstance(e, Expression)]
    return [a for a in columns if any(a in dims.syms(e) and e != axis_dim(a) for e in reduced)]


def _product(
    stage: Stage, left: Load, right: Load, rewrite: WindowRewrite, row: LoneRow | None
) -> list[Stage] | None:
    """Returns the product, on a copy with its steps unchanged if it reads columns one by one."""
    if rewrite.has_steps():
        new_stages = _product_of(stage, left, right, rewrite, row, apart=False)
        contraction = None if new_stages is None else contraction_of(new_stages[-2])
        if contraction is not None and contraction.weights is not None:
            return new_stages
    return _product_of(stage, left, right, rewrite, row, apart=True)


def _product_of(
    stage: Stage, left: Load, right: Load, rewrite: WindowRewrite, row: LoneRow | None, apart: bool
) -> list[Stage] | None:
    before = list[Stage]()
    if row is not None:
        left = row.left
        parallel, extents = (*stage.parallel, row.axis), {row.axis: 1, **stage.extents}
        stage = attrs.evolve(stage, parallel=parallel, extents=extents)
    if rewrite.needed(apart):
        copy, right = rewrite.copied(apart)
        before.append(copy)
    moving = [w.axis for _, w in sorted(rewrite.windows.items()) if w.axis is not None]
    order = (*[a for a in stage.parallel if a not in moving], *moving)
    out = Buffer(tuple([stage.extents[a] for a in order]), stage.out.dtype)
    at = tuple([axis_dim(a) for a in order])
    body = apply("mul", (left, right), stage.body.dtype)
    product = attrs.evolve(
        stage, out=out, parallel=order, body=body, write=at, guards=(), extents=stage.extents
    )
    if contraction_of(product) is None:
        stages, left = _gathered(stage, left)
        before += stages
        product = attrs.evolve(product, body=apply("mul", (left, right), stage.body.dtype))
    if contraction_of(product) is None:
        return None
    write = stage.write if row is None else _along(row.axis, stage)
    if write is None:
        return None
    extents = {a: stage.extents[a] for a in order}
    moved = Stage(stage.out, order, (), extents, load(out, at), write, origin=stage.origin)
    return [*before, product, moved]


def _along(row: Sym, stage: Stage) -> tuple[Entry, ...] | None:
    """Returns the write index of the only row: along the axis of size 1 of the result, if there is
    one."""
    for k, (entry, size) in enumerate(zip(stage.write, stage.out.shape, strict=True)):
        if size == 1 and not isinstance(entry, Expression) and entry == 0:
            return (*stage.write[:k], axis_dim(row), *stage.write[k + 1 :])
    return None


def _gathered(stage: Stage, left: Load) -> tuple[list[Stage], Load]:
    """Returns the weights in the order of the reduction: computed at run time, or constant."""
    used = {a for e in left.entries for a in axes_in(e, stage)}
    axes = [a for a in stage.axes if a in used]
    fresh = {a: dims.sym(a.name) for a in axes}
    extents = {s: stage.extents[a] for a, d in fresh.items() if (s := dims.as_sym(d)) is not None}
    body = substituted(left, fresh)
    assert body is not None
    shape, at = tuple(extents.values()), tuple([axis_dim(a) for a in axes])
    values = elements_of(left, {a: stage.extents[a] for a in axes})
    if values is not None:
        buffer = Buffer(shape, left.buffer.dtype, "constant", data=values.copy())
        return [], load(buffer, at)
    out = Buffer(shape, left.buffer.dtype)
    copy = Stage(out, tuple(extents), (), extents, body, tuple(fresh.values()), origin=stage.origin)
    return [copy], load(out, at)


def _as_map(stage: Stage) -> list[Stage] | None:
    """Returns a reduction over few terms with a vector of results, unrolled."""
    product = contraction_of(stage)
    is_product = product is not None and product.m and not product.windows
    if is_product or stage.monoid not in WRITTEN_OUT or not _few(stage) or not stage.parallel:
        return None
    before, body = list[Stage](), stage.body
    moved = [r for r in loads_of(body) if overlaps(r, stage)]
    if len(moved) != 1 or (stage.guards and len(loads_of(body)) > 2):
        return None
    identity = 0.0 if stage.monoid == "sum" else MONOIDS[stage.monoid].identity(body.dtype)
    if stage.guards and stage.monoid != "sum" and body is not moved[0]:
        return None
    if stage.guards and stage.monoid == "sum" and not _vanishes(body, moved[0]):
        return None
    rewrite = WindowRewrite(stage, moved[0], list(stage.parallel), identity)
    if not rewrite.fits:
        return None
    if rewrite.needed():
        copy, read = rewrite.copied()
        before.append(copy)
        body = rebuilt(body, lambda n: read if n is moved[0] else n)
    return [*before, _written_out(stage, body)]


def _vanishes(body: Expression, read: Load) -> bool:
    """Whether the term is 0 where the read is: it is the read, or a product with it."""
    factors = getattr(body, "args", ()) if getattr(body, "fn", "") == "mul" else ()
    return body is read or read in factors


def _few(stage: Stage) -> bool:
    count = prod(stage.extents[a] for a in stage.reduce)
    return isinstance(count, int) and 1 <= count <= MOST_TERMS


def _written_out(stage: Stage, body: Expression) -> Stage:
    terms = [
        term
        for at in _points([(a, stage.extents[a]) for a in stage.reduce])
        if (term := substituted(body, at)) is not None
    ]
    total, combine = terms[0], WRITTEN_OUT[stage.monoid or ""]
    if combine != "add" and is_float(body.dtype):
        combine = f"accumulate_{combine}"
    for term in terms[1:]:
        total = apply(combine, (total, term), body.dtype)
    extents = {a: stage.extents[a] for a in stage.parallel}
    return attrs.evolve(stage, reduce=(), extents=extents, body=total, monoid=None, guards=())


def _points(axes: list[tuple[Sym, Dim]]) -> Iterator[dict[Sym, Dim]]:
    if not axes:
        yield {}
        return
    axis, extent = axes[0]
    for k in range(extent if isinstance(extent, int) else 0):
        for rest in _points(axes[1:]):
            yield {axis: k, **rest}


def _as_mean(stage: Stage) -> list[Stage] | None:
    """Returns the average over the terms that exist: their sum, divided by their count."""
    if stage.monoid != "mean" or not isinstance(stage.body, Load) or not _few(stage):
        return None
    dtype = computed_in(stage.out.dtype)
    if stage.body.dtype != dtype or "float" not in dtype:
        return None
    rewrite = WindowRewrite(stage, stage.body, list(stage.parallel), 0.0)
    if not rewrite.fits or any(len(w.taps) != 1 or w.taps[0][1] != 1 for w in _tapped(rewrite)):
        return None
    count: Dim = 1
    for window in rewrite.windows.values():
        count = count * _count(window, stage)
    in_windows = {axis for window in rewrite.windows.values() for axis, _ in window.taps}
    for axis in stage.reduce:  # the only window of an axis is always inside
        count = count if axis in in_windows else count * stage.extents[axis]
    added = Buffer(stage.out.shape, dtype)
    sums = _plain(attrs.evolve(stage, out=added, monoid="sum"))
    extents = {a: stage.extents[a] for a in stage.parallel}
    terms = cast(position(count, "int64"), dtype)
    body = apply("div", (load(added, stage.write), terms), dtype)
    over = Stage(stage.out, stage.parallel, (), extents, body, stage.write, origin=stage.origin)
    return [*sums, over]


def _tapped(rewrite: WindowRewrite) -> list[WindowIndex]:
    return [w for w in rewrite.windows.values() if w.taps]


def _count(window: WindowIndex, stage: Stage) -> Dim:
    """Returns the number of existing terms of a window along its axis."""
    place = axis_dim(window.axis) if window.axis is not None else 0
    first = place * window.step + window.start
    length = stage.extents[window.taps[0][0]] if window.taps else 1
    return dims.dim_min(window.stop, first + length) - dims.dim_max(window.low, first)

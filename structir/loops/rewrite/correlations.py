"""The gradient of a convolution by its weights: a sum over pixels of products with moving reads.
The reads are copied, one line of pixels per weight (im2col), and the sum is a matrix product."""

from __future__ import annotations

from functools import partial

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.loops.products.contraction import contraction_of, factors_of
from structir.loops.program.access import split
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import (
    Entry,
    Expression,
    Load,
    apply,
    axis_dim,
    load,
    number,
    substituted,
)
from structir.loops.program.stage import Guard, Stage


def as_product_of_pixels(stage: Stage) -> list[Stage] | None:
    """Returns the copies and the product that compute a sum over pixels; None if a stage is no such
    sum."""
    factors = factors_of(stage)
    if factors is None or stage.exists is not None:
        return None
    for still, moving in (factors, factors[::-1]):
        if _moves_by_taps(moving, stage) and not overlaps(still, stage):
            guarded = {s for g in stage.guards for s in dims.syms(g.value) & set(stage.axes)}
            if guarded <= _axes_of(moving, stage) and (not guarded or _is_whole(still, stage)):
                return _product(stage, still, moving)
    return None


def _product(stage: Stage, still: Load, moving: Load) -> list[Stage] | None:
    plain = attrs.evolve(stage, guards=(), otherwise=None)
    moved, columns = _lines(stage, moving)
    copies, lines = [moved], still
    for _ in range(2):
        body = apply("mul", (lines, columns), stage.body.dtype)
        product = attrs.evolve(plain, body=body)
        contraction = contraction_of(product)
        if contraction is not None:
            is_plain = contraction.m and not contraction.windows
            return [*copies, product] if is_plain else None
        copy, lines = _lines(plain, still)
        copies = [moved, copy]
    return None


def _lines(stage: Stage, read: Load) -> tuple[Stage, Load]:
    """Returns a copy of a read whose last axes are the reduced ones, and the read of it."""
    used = _axes_of(read, stage)
    axes = [*[axis for axis in stage.parallel if axis in used], *stage.reduce]
    own = {axis: Sym(axis.name) for axis in axes}
    at = {axis: axis_dim(symbol) for axis, symbol in own.items()}
    out = Buffer(tuple([stage.extents[axis] for axis in axes]), read.buffer.dtype)
    body = substituted(read, at)
    assert body is not None
    copy = Stage(
        out,
        tuple(own.values()),
        (),
        {own[axis]: stage.extents[axis] for axis in axes},
        body,
        tuple(at.values()),
        guards=tuple([Guard(dims.substitute(guard.value, at)) for guard in stage.guards]),
        origin=stage.origin,
        otherwise=number(0.0, read.buffer.dtype) if stage.guards else None,
    )
    return copy, load(out, tuple([axis_dim(axis) for axis in axes]))


def _is_whole(read: Load, stage: Stage) -> bool:
    """Whether a read is inside of its buffer at all points, including those that guards exclude."""
    return all(map(partial(_is_inside, stage), read.entries, read.buffer.shape))


def _is_inside(stage: Stage, entry: Entry, size: Dim) -> bool:
    if isinstance(entry, Expression):
        return False
    steps, least = split(entry, stage.axes)
    if dims.syms(least) & set(stage.axes) or not all(type(c) is int for c in steps.values()):
        return False
    if any(dims.at_least(step, 0) is not True for step in steps.values()):
        return False
    greatest = least + sum(step * (stage.extents[axis] - 1) for axis, step in steps.items())
    return dims.at_least(least, 0) is True and dims.at_least(size - 1 - greatest, 0) is True


def _axes_of(read: Load, stage: Stage) -> set[Sym]:
    return {s for e in read.entries for s in axes_in(e, stage)}


def axes_in(entry: Entry, stage: Stage) -> set[Sym]:
    """Returns the axes of a stage that an index depends on, except through data."""
    return set() if isinstance(entry, Expression) else set(dims.syms(entry)) & set(stage.axes)


def overlaps(read: Load, stage: Stage) -> bool:
    """Whether an index depends on both a parallel and a reduced axis."""
    moves = [axes_in(entry, stage) for entry in read.entries]
    return any(m & set(stage.parallel) and m & set(stage.reduce) for m in moves)


def _moves_by_taps(read: Load, stage: Stage) -> bool:
    """Whether the parallel axes that share an index with a reduced one are short beside it: weights
    beside pixels."""
    moves = [axes_in(entry, stage) for entry in read.entries]
    both = [(m & set(stage.parallel), m & set(stage.reduce)) for m in moves]
    pairs = [(stage.extents[p], stage.extents[r]) for ps, rs in both for p in ps for r in rs]
    short = [isinstance(p, int) and dims.at_least(r, p) is not False for p, r in pairs]
    return overlaps(read, stage) and all(short)

"""Sums over pixels of products with moving reads: the gradient of a convolution by its weights. The
reads are copied, one line of pixels per weight (im2col), and the sum is a matrix product."""

from __future__ import annotations

import attrs

from structir.backend.loops.buffer import Buffer
from structir.backend.loops.contraction import contraction_of, factors_of
from structir.backend.loops.expression import (
    Entry,
    Expression,
    Load,
    apply,
    axis_dim,
    load,
    number,
    substituted,
)
from structir.backend.loops.stage import Guard, Stage
from structir.ir import dims
from structir.ir.dims import Sym


def as_product_of_pixels(stage: Stage) -> list[Stage] | None:
    """The copies and the product that make a sum over pixels; None if a stage is no such sum."""
    factors = factors_of(stage)
    if factors is None or stage.exists is not None:
        return None
    for still, moving in (factors, factors[::-1]):
        if _moves_by_taps(moving, stage) and not _overlaps(still, stage):
            guarded = {s for g in stage.guards for s in dims.syms(g.value) & set(stage.axes)}
            if guarded <= _axes_of(moving, stage):
                return _product(stage, still, moving)
    return None


def _product(stage: Stage, still: Load, moving: Load) -> list[Stage] | None:
    plain = attrs.evolve(stage, guards=(), otherwise=None)
    moved, columns = _lines(stage, moving)
    made, lines = [moved], still
    for _ in range(2):
        body = apply("mul", (lines, columns), stage.body.dtype)
        product = attrs.evolve(plain, body=body)
        found = contraction_of(product)
        if found is not None:
            return [*made, product] if found.m and not found.windows else None
        copied, lines = _lines(plain, still)
        made = [moved, copied]
    return None


def _lines(stage: Stage, read: Load) -> tuple[Stage, Load]:
    """A copy of a read whose last axes are the reduced ones, and the read of it."""
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


def _axes_of(read: Load, stage: Stage) -> set[Sym]:
    return {s for e in read.entries for s in _axes_in(e, stage)}


def _axes_in(entry: Entry, stage: Stage) -> set[Sym]:
    return set() if isinstance(entry, Expression) else set(dims.syms(entry)) & set(stage.axes)


def _overlaps(read: Load, stage: Stage) -> bool:
    """Whether an index moves along a parallel and a reduced axis at once."""
    moves = [_axes_in(entry, stage) for entry in read.entries]
    return any(m & set(stage.parallel) and m & set(stage.reduce) for m in moves)


def _moves_by_taps(read: Load, stage: Stage) -> bool:
    """Whether the parallel axes that move an index together with a reduced one are short beside
    it: weights beside pixels."""
    moves = [_axes_in(entry, stage) for entry in read.entries]
    both = [(m & set(stage.parallel), m & set(stage.reduce)) for m in moves]
    pairs = [(stage.extents[p], stage.extents[r]) for ps, rs in both for p in ps for r in rs]
    short = [isinstance(p, int) and dims.at_least(r, p) is not False for p, r in pairs]
    return _overlaps(read, stage) and all(short)

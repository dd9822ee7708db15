"""Products with interleaved results: a transposed convolution writes a few columns of each filter
beside those of the next pixel. The product is computed with contiguous columns; then its results
are moved."""

from __future__ import annotations

import attrs

from structir.ir.dims import Sym
from structir.loops.products.contraction import contraction_of, has_few_columns
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import axis_dim, load
from structir.loops.program.stage import LoopProgram, Stage


def with_products_together(program: LoopProgram) -> LoopProgram:
    """Returns the program with each product of few columns as one of many columns, where
    possible."""
    stages = [part for stage in program.stages for part in _together(stage) or [stage]]
    return attrs.evolve(program, stages=tuple(stages))


def _together(stage: Stage) -> list[Stage] | None:
    """Returns the product with contiguous columns, and the stage that moves them."""
    narrow = contraction_of(stage)
    if narrow is None or narrow.windows or not narrow.m or not stage.simple:
        return None
    if not has_few_columns(stage, narrow):
        return None
    sides = [narrow.left_address.coefficients.keys(), narrow.right_address.coefficients.keys()]
    only = [
        [a for a in stage.parallel if a in own and a not in other]
        for own, other in (sides, sides[::-1])
    ]
    if len(only[1]) == len(narrow.n):
        return None
    shared = [a for a in stage.parallel if a not in {*only[0], *only[1]}]
    for first, last in (only[::-1], only):
        together = _product(stage, (*shared, *first, *last))
        if together is not None:
            return together
    return None


def _product(stage: Stage, axes: tuple[Sym, ...]) -> list[Stage] | None:
    """Returns the product with a result of these axes, and the stage that moves it."""
    at = tuple([axis_dim(axis) for axis in axes])
    out = Buffer(tuple([stage.extents[axis] for axis in axes]), stage.out.dtype)
    product = attrs.evolve(stage, out=out, write=at)
    wide = contraction_of(product)
    if wide is None or has_few_columns(product, wide):
        return None
    extents = {axis: stage.extents[axis] for axis in stage.parallel}
    moved = attrs.evolve(
        stage,
        parallel=(*[axis for axis in stage.parallel if axis is not axes[-1]], axes[-1]),
        reduce=(),
        extents=extents,
        body=load(out, at),
        monoid=None,
    )
    return [product, moved]

"""A matrix product alone as a group of blocks, so that threads share its rows and its columns."""

from __future__ import annotations

import attrs

from structir.ir.dims import Sym
from structir.loops.fusion.group import Group
from structir.loops.kernel.blocks import BlockSchedule
from structir.loops.products.contraction import Contraction, contraction_of
from structir.loops.program.expression import (
    Entry,
    Expression,
    Operation,
    apply,
    axis_dim,
    load,
)
from structir.loops.program.stage import Stage
from structir.targets.cpu.products import has_products_of_floats


def product_blocks(group: Group) -> Group | None:
    """Returns the group of blocks of a product alone; None for one block, and for products of
    windows without constant weights, of integers, of a dtype without tiles, and of a vector that is
    no row of a matrix."""
    stage = group.stages[0]
    product = contraction_of(stage)
    if product is None or not has_products_of_floats(stage.out.dtype):
        return None
    if product.windows and product.weights is None:
        return None
    if not product.m:
        lone = _with_row(stage, product)
        product = None if lone is None else contraction_of(lone)
        if lone is None or product is None or not product.m:
            return None
        stage = lone
    rows = tuple([axis for axis in stage.parallel if axis not in product.n])
    blocks = attrs.evolve(group, kind="blocks", stages=(stage,), rows=rows)
    schedule = BlockSchedule(blocks)
    is_split = schedule.batch or schedule.split is not None
    return blocks if is_split or product.weights is not None else None


def _with_row(stage: Stage, product: Contraction) -> Stage | None:
    """Returns a product of a vector with an axis of size 1 of the left operand as its rows."""
    left = product.left
    for k, (entry, size) in enumerate(zip(left.entries, left.buffer.shape, strict=True)):
        if size == 1 and not isinstance(entry, Expression) and entry == 0:
            row = Sym("row")
            moved = load(left.buffer, _replaced(left.entries, k, row))
            body = stage.body
            assert isinstance(body, Operation)
            args = tuple([moved if argument is left else argument for argument in body.args])
            return attrs.evolve(
                stage,
                parallel=(row, *stage.parallel),
                extents={row: 1, **stage.extents},
                body=apply(body.fn, args, body.dtype),
            )
    return None


def _replaced(entries: tuple[Entry, ...], k: int, row: Sym) -> tuple[Entry, ...]:
    return (*entries[:k], axis_dim(row), *entries[k + 1 :])

"""Products that are fused with each other: several whose right operands are parts of one constant,
as in minimal filtering. A block of rows passes through all of them while it is in cache."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from structir.ir.dims import Sym
from structir.loops.fusion.group import Group
from structir.loops.products.contraction import contraction_of, is_by_constant
from structir.loops.program.buffer import Buffer
from structir.loops.program.stage import LoopProgram, Stage


def products_together(program: LoopProgram) -> tuple[Group, ...]:
    """Returns the groups of products by parts of one constant, with the maps of their rows that
    compute the left operands and read the results."""
    alike = defaultdict[tuple[Buffer, Sym], list[Stage]](list)
    for stage in program.stages:
        product = contraction_of(stage) if is_by_constant(stage) else None
        if product is not None and not product.batch and len(product.m) == 1:
            alike[product.right.buffer.root, product.m[0]].append(stage)
    groups = [_group(program, key[1], products) for key, products in alike.items()]
    return tuple([group for group in groups if group is not None])


def _group(program: LoopProgram, rows: Sym, products: list[Stage]) -> Group | None:
    """Returns the group of some products; None for one, and if others use their operands or
    results."""
    used = {b.root for b in program.outputs}
    lines = {p.loads[0].buffer for p in products} | {p.loads[1].buffer for p in products}
    totals = {p.out for p in products}
    before = [s for s in program.stages if s.out in lines]
    after = [s for s in program.stages if totals & {read.buffer for read in s.loads}]
    members = {*before, *products, *after}
    inner = {s.out.root for s in (*before, *products)}
    if len(products) < 2 or not before or inner & used:
        return None
    if not _are_maps(rows, before) or not _are_maps(rows, after):
        return None
    if any(s not in members and inner & _reads(s) for s in program.stages):
        return None
    if any(_reads(s) - totals for s in after) or any(_reads(s) & totals for s in before):
        return None
    stages = tuple([s for s in program.stages if s in members])
    kept = frozenset([s.out for s in after])
    return Group("blocks", stages, (rows,), kept, frozenset(kept & used))


def _reads(stage: Stage) -> set[Buffer]:
    return {read.buffer.root for read in stage.loads}


def _are_maps(rows: Sym, stages: Iterable[Stage]) -> bool:
    """Whether stages are maps of the rows of a product."""
    return all(s.simple and not s.reduce and s.parallel[:1] == (rows,) for s in stages)

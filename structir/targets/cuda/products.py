"""Recognition of matrix products and similar stages, such as convolutions over windows, by their
index maps alone."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import attrs

from structir.ir import dims
from structir.ir.dims import Sym
from structir.ir.kernel import computed_in
from structir.loops.products.contraction import Contraction
from structir.loops.program.access import Address, address_of, joined_axes
from structir.loops.program.expression import (
    Expression,
    Load,
    Number,
    Operation,
    loads_of,
)
from structir.loops.program.stage import LoopProgram, Stage
from structir.loops.rewrite.scatters import gathered

FARTHEST = 8  # elements between columns of a result
FEWEST = 8  # rows and terms of windows that are computed in tiles


def product_of(stage: Stage) -> Contraction | None:
    """Returns a stage as a product, memoized. Its groups of axes may have several strides, and
    guards may exclude elements of an operand."""
    known = stage.__dict__
    if "_device_product" not in known:
        known["_device_product"] = _product_of(stage)
    return known["_device_product"]  # type: ignore[no-any-return]


def _product_of(stage: Stage) -> Contraction | None:
    factors = _factors(stage)
    if factors is None:
        return None
    out = address_of(stage.out, stage.write, stage.axes)
    ways = [_split(stage, *pair, out) for pair in (factors, factors[::-1])]
    nearest = min([way for way in ways if way is not None], key=_between_columns, default=None)
    if nearest is None or _between_columns(nearest) > FARTHEST or _is_small(stage, nearest):
        return None
    return nearest


def _between_columns(contraction: Contraction) -> int:
    """Returns the least stride between columns of the result."""
    steps = [contraction.out_address.coefficient(axis) for axis in contraction.n]
    return min([step for step in steps if isinstance(step, int)], default=FARTHEST + 1)


def _factors(stage: Stage) -> tuple[Expression, Expression] | None:
    body = stage.body
    plain = stage.unique and stage.exists is None and stage.running is None
    if stage.monoid != "sum" or not (plain and stage.routine is None and stage.reduce):
        return None
    if any(isinstance(entry, Expression) for entry in stage.write) or body.dtype == "bool":
        return None
    if not isinstance(body, Operation) or body.fn != "mul":
        return None
    if body.dtype != computed_in(stage.out.dtype):  # terms are rounded before the sum
        return None
    left, right = body.args
    return (left, right) if _is_operand(left) and _is_operand(right) else None


def _is_operand(factor: Expression) -> bool:
    """Whether a factor is an element of one buffer, possibly converted."""
    while isinstance(factor, Operation) and factor.fn == "cast":
        (factor,) = factor.args
    return isinstance(factor, Load) and not any(isinstance(e, Expression) for e in factor.entries)


def axes_read(factor: Expression, axes: Iterable[Sym]) -> frozenset[Sym]:
    """Returns the axes that a factor depends on."""
    entries = [entry for read in loads_of(factor) for entry in read.entries]
    dims_of_entries = [dims.syms(entry) for entry in entries if not isinstance(entry, Expression)]
    return frozenset().union(*dims_of_entries) & frozenset(axes)


def _split(stage: Stage, left: Expression, right: Expression, out: Address) -> Contraction | None:
    in_left, in_right = [axes_read(factor, stage.axes) for factor in (left, right)]
    both = in_left & in_right
    rows = tuple([axis for axis in stage.parallel if axis in in_left - both])
    columns = tuple([axis for axis in stage.parallel if axis in in_right - both])
    batch = tuple([axis for axis in stage.parallel if axis not in (*rows, *columns)])
    guarded = [dims.syms(g.value) & frozenset(stage.axes) for g in stage.guards]
    one_sided = all(own <= in_left or own <= in_right for own in guarded)
    if not columns or (batch and not rows) or not both >= set(stage.reduce) or not one_sided:
        return None
    (a,), (b,) = loads_of(left), loads_of(right)
    first, second = [address_of(x.buffer, x.entries, stage.axes) for x in (a, b)]
    return Contraction(batch, rows, columns, stage.reduce, a, b, first, second, out)


def _is_small(stage: Stage, contraction: Contraction) -> bool:
    """Whether windows have so few weights that each point is computed by one thread."""
    moves = stage.guards or len(joined_terms(stage, contraction)) > 1
    counts = [prod(stage.extents[axis] for axis in axes) for axes in (contraction.m, contraction.k)]
    return bool(moves) and any(isinstance(count, int) and count < FEWEST for count in counts)


def gathered_products(program: LoopProgram) -> LoopProgram:
    """Replaces scattered sums of products by products where the gather form is one: convolutions
    with operand and result exchanged."""
    pairs = [(stage, gathered(stage) or []) for stage in program.stages]
    parts_of = {s: parts for s, parts in pairs if parts and all(map(product_of, parts))}
    whole = {stage.out for stage in parts_of}
    stages = list[Stage]()
    for stage in program.stages:
        if not (stage.out in whole and isinstance(stage.body, Number)):  # the initial value of sums
            stages += parts_of.get(stage, [stage])
    return attrs.evolve(program, stages=tuple(stages))


def joined_terms(stage: Stage, contraction: Contraction) -> list[tuple[Sym, ...]]:
    """Returns the reduced axes of a product, collapsed as far as both operands allow."""
    return joined_axes(
        contraction.k, stage.extents, [contraction.left_address, contraction.right_address]
    )

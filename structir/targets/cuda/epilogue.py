"""Epilogue fusion: maps of a product, computed at each point of its result in the same kernel."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import Expression, Load, load, rebuilt
from structir.loops.program.stage import Stage
from structir.loops.rewrite.view_inlining import value_at

Results = list[tuple[Buffer, Expression]]


def results_of(product: Stage, stages: Sequence[Stage], kept: Collection[Buffer]) -> Results:
    """Returns the buffers that are written, each with its value at a point of the product's
    result."""
    producers = {stage.out: stage for stage in stages if stage is not product}
    own = load(product.out, product.write)

    def leaf(node: Expression) -> Expression:
        producer = producers.get(node.buffer) if isinstance(node, Load) else None
        if producer is None or not isinstance(node, Load):
            return node
        value = value_at(producer, node.entries)
        return node if value is None else rebuilt(value, leaf)

    return [
        (stage.out, own if stage is product else rebuilt(load(stage.out, product.write), leaf))
        for stage in stages
        if stage.out in kept
    ]

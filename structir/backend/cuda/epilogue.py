"""Epilogue fusion: maps of a product, computed at each point of its result in the same kernel."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from structir.backend.loops.buffer import Buffer
from structir.backend.loops.compose import value_at
from structir.backend.loops.expression import Expression, Load, load, rebuilt
from structir.backend.loops.stage import Stage

Results = list[tuple[Buffer, Expression]]


def results_of(product: Stage, stages: Sequence[Stage], kept: Collection[Buffer]) -> Results:
    """Returns the buffers that are written, each with its value at a point of the product's
    result."""
    makers = {stage.out: stage for stage in stages if stage is not product}
    own = load(product.out, product.write)

    def leaf(node: Expression) -> Expression:
        maker = makers.get(node.buffer) if isinstance(node, Load) else None
        if maker is None or not isinstance(node, Load):
            return node
        value = value_at(maker, node.entries)
        return node if value is None else rebuilt(value, leaf)

    return [
        (stage.out, own if stage is product else rebuilt(load(stage.out, product.write), leaf))
        for stage in stages
        if stage.out in kept
    ]

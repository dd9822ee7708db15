"""The parts of a group with products: products, and the loops between them."""

from __future__ import annotations

from collections.abc import Mapping

from structir.backend.loops.buffer import Buffer
from structir.backend.loops.contraction import Contraction
from structir.backend.loops.group import Group
from structir.backend.loops.stage import Stage


class Segments:
    """The execution order of the stages of a group with products.

    `parts` alternates between loops and products. `passed` are the stages whose results pass
    between parts.
    """

    def __init__(self, group: Group, products: Mapping[Stage, Contraction]) -> None:
        self.products = list(products)
        self.makers = {s.out: s for s in group.stages}
        self.readers: dict[Stage, list[Stage]] = {s: [] for s in group.stages}
        for stage in group.stages:
            for read in stage.loads:
                maker = self.makers.get(read.buffer)
                if maker is not None and maker is not stage:
                    self.readers[maker].append(stage)
        self.at: dict[Stage, int] = {}
        for stage in group.stages:
            self._place_first(stage)
        for stage in reversed(group.stages):
            self._place_late(stage, group)
        self.parts: list[Stage | tuple[Stage, ...]] = []
        for number in range(len(self.products) + 1):
            loops = [s for s in group.stages if s not in products and self.at[s] == number]
            self.parts.append(tuple(loops))
            self.parts += self.products[number : number + 1]
        self.passed = [s for s in group.stages if self._passes(s)]
        self.passed_buffers: frozenset[Buffer] = frozenset(s.out for s in self.passed)

    def _place_first(self, stage: Stage) -> None:
        """Places a stage as early as its operands allow: part n precedes product n."""
        found = 0
        for read in stage.loads:
            maker = self.makers.get(read.buffer)
            if maker is not None and maker is not stage:
                after = 1 if maker in self.products else 0
                found = max(found, self.at[maker] + after)
        self.at[stage] = self.products.index(stage) if stage in self.products else found

    def _place_late(self, stage: Stage, group: Group) -> None:
        """Moves maps that have no earlier user to a later part, so that less passes between
        parts."""
        readers = self.readers[stage]
        if stage not in self.products and not stage.reduce and readers:
            self.at[stage] = max(self.at[stage], min(self.at[r] for r in readers))

    def _passes(self, stage: Stage) -> bool:
        if stage in self.products:
            return True
        return any(r in self.products or self.at[r] != self.at[stage] for r in self.readers[stage])

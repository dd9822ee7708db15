"""Def-use information of a program: the stages that write and read each buffer."""

from __future__ import annotations

from collections.abc import Callable

from structir.loops.products.contraction import Contraction
from structir.loops.program.buffer import Buffer
from structir.loops.program.stage import LoopProgram, Stage


class DefUse:
    """The stages that write and read each buffer of a program."""

    def __init__(
        self, program: LoopProgram, product_of: Callable[[Stage], Contraction | None]
    ) -> None:
        self.order = {stage: number for number, stage in enumerate(program.stages)}
        self.outputs = {buffer.root for buffer in program.outputs}
        self.writers: dict[Buffer, list[Stage]] = {}
        self.readers: dict[Buffer, list[Stage]] = {}
        for stage in program.stages:
            self.writers.setdefault(stage.out.root, []).append(stage)
            for read in stage.loads:
                self.readers.setdefault(read.buffer.root, []).append(stage)
        simple = [s for s in program.stages if s.simple]
        self.products = [s for s in simple if (c := product_of(s)) is not None and not c.windows]

    def producer(self, buffer: Buffer) -> Stage | None:
        """Returns the only stage that writes a buffer, at its own iteration points."""
        writers = self.writers.get(buffer.root, [])
        alone = len(writers) == 1 and buffer.base is None and writers[0].out is buffer
        return writers[0] if alone and writers[0].direct else None

    def read_by(self, stage: Stage) -> list[Stage]:
        """Returns the stages that read the result of a stage."""
        return self.readers.get(stage.out.root, [])

    def after(self, stage: Stage) -> set[Stage]:
        """Returns a stage and all stages that depend on it."""
        dependent, todo = {stage}, [stage]
        while todo:
            following = [s for s in self.read_by(todo.pop()) if s not in dependent]
            dependent.update(following)
            todo += following
        return dependent

    def scores_of(self, mixing: Stage) -> list[Stage]:
        """Returns the products that a factor of a product is computed from by maps and a
        reduction."""
        products: list[Stage] = []
        reduced = False
        todo, seen = [read.buffer for read in mixing.loads], set[Stage]()
        while todo:
            producer = self.producer(todo.pop())
            if producer is None or producer in seen:
                continue
            seen.add(producer)
            reduced = reduced or producer.monoid == "max"
            if producer in self.products:
                products.append(producer)
            elif producer.monoid in (None, "sum", "max"):
                todo += [read.buffer for read in producer.loads]
        return products if reduced else []

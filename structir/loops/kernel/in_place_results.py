"""In-place results within a kernel: a result overwrites an operand that has no later use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import attrs

from structir.loops.fusion.group import Group
from structir.loops.kernel.short_rows import has_short_rows
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import Entry, Expression, Load, load, rebuilt
from structir.loops.program.stage import LoopProgram, Stage

KINDS = frozenset(
    {"rows", "blocks"}
)  # whose results are written row by row, the last thing in each


def with_reuse(
    program: LoopProgram, groups: Sequence[Group]
) -> tuple[list[Group], dict[Buffer, Buffer]]:
    """Returns the groups, with results in the memory of operands that are read at the same point
    and nowhere later; and the outputs of the program that are in the memory of donated inputs."""
    reuse = _Reuse(program, groups)
    renamed = [reuse.group(number, group) for number, group in enumerate(groups)]
    return renamed, reuse.moved_outputs(program)


class _Reuse:
    """The buffers that share memory, found group by group."""

    def __init__(self, program: LoopProgram, groups: Sequence[Group]) -> None:
        self.outside = {b.root for b in program.outputs}
        self.donated = dict(program.donated)
        self.writers = Counter(stage.out.root for group in groups for stage in group.stages)
        self.last: dict[Buffer, int] = {}  # by roots, the last group that accesses them
        self.fixed: set[Buffer] = set()  # named in the lines of a routine
        for number, group in enumerate(groups):
            for stage in group.stages:
                touched = [stage.out.root, *[read.buffer.root for read in stage.loads]]
                self.last |= dict.fromkeys(touched, number)
                if stage.routine is not None:
                    self.fixed.update(touched)
        self.moved: dict[Buffer, Buffer] = {
            o.target: attrs.evolve(o.target, base=o.donor) for o in program.overwrites
        }

    def moved_outputs(self, program: LoopProgram) -> dict[Buffer, Buffer]:
        """Returns the outputs that were moved, and their new buffers."""
        return {b: now for b in program.outputs if (now := self._now(b)) is not b}

    def group(self, number: int, group: Group) -> Group:
        """Returns the group over the current buffers."""
        group = self._renamed(group)
        out = group.stages[-1].out
        under = self._operand(number, group)
        if under is None:
            return group
        self.moved[out] = attrs.evolve(out, base=under.root)
        self.last[under.root] = max(number, self.last[out])
        return self._renamed(group)

    def _operand(self, number: int, group: Group) -> Buffer | None:
        """Returns the operand that the last stage, which computes all results of the group, can
        overwrite."""
        stage = group.stages[-1]
        out, written = stage.out, {s.out.root for s in group.stages}
        whole = group.kind in KINDS and group.kept == {out} and stage.direct and not stage.reduce
        donor = self._donor(out)
        free = donor is not None or self._is_free(out)
        if not whole or not free or self.writers[out] > 1 or has_short_rows(group):
            return None
        reads = dict.fromkeys(read for s in group.stages for read in s.loads)
        for read in reads:
            under = read.buffer
            free = self._is_free(under.root) if donor is None else under.root is donor
            dies = free and self.last[under.root] == number
            alike = under.shape == out.shape and under.dtype == out.dtype
            if (
                dies
                and alike
                and under.root not in written
                and _only_there(under, reads, stage.write)
            ):
                return under
        return None

    def _donor(self, out: Buffer) -> Buffer | None:
        """Returns the donated input that a result may overwrite."""
        donor = self.donated.get(out)
        if donor is None or donor in self.outside or out in self.moved or out.base is not None:
            return None
        return donor if self.fixed.isdisjoint((out, donor)) else None

    def _is_free(self, buffer: Buffer) -> bool:
        """Whether a buffer's memory belongs to the plan and is not visible elsewhere."""
        own = buffer.origin == "value" and buffer.base is None
        return own and buffer not in self.outside and buffer not in self.fixed

    def _now(self, buffer: Buffer) -> Buffer:
        """Returns the current buffer in place of another, or a view of its base's."""
        if buffer not in self.moved and buffer.base is not None:
            base = self._now(buffer.base)
            if base is not buffer.base:
                self.moved[buffer] = attrs.evolve(buffer, base=base)
        return self.moved.get(buffer, buffer)

    def _renamed(self, group: Group) -> Group:
        touched = {b for s in group.stages for b in (s.out, *[read.buffer for read in s.loads])}
        if all(self._now(buffer) is buffer for buffer in touched):
            return group
        kept = frozenset(map(self._now, group.kept))
        return attrs.evolve(group, stages=tuple(map(self._stage, group.stages)), kept=kept)

    def _stage(self, stage: Stage) -> Stage:
        touched = (stage.out, *[read.buffer for read in stage.loads])
        if all([self._now(buffer) is buffer for buffer in touched]):
            return stage
        exists = None if stage.exists is None else rebuilt(stage.exists, self._leaf)
        write = tuple(map(self._entry, stage.write))
        body = rebuilt(stage.body, self._leaf)
        return attrs.evolve(stage, out=self._now(stage.out), body=body, write=write, exists=exists)

    def _leaf(self, node: Expression) -> Expression:
        if not isinstance(node, Load):
            return node
        return load(self._now(node.buffer), tuple(map(self._entry, node.entries)))

    def _entry(self, entry: Entry) -> Entry:
        return rebuilt(entry, self._leaf) if isinstance(entry, Expression) else entry


def _only_there(buffer: Buffer, reads: dict[Load, None], write: tuple[Entry, ...]) -> bool:
    """Whether memory is read only through this buffer, and only at the point of the write."""
    same = [read for read in reads if read.buffer.root is buffer.root]
    return all(read.buffer is buffer and read.entries == write for read in same)

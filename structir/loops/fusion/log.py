"""Records why lowering fused ops into kernels, and why not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from structir.ir import dims
from structir.ir.expr import Binding
from structir.loops.fusion.group import FUSED, Decision, Group
from structir.loops.program.buffer import Buffer
from structir.loops.program.stage import LoopProgram

KINDS = {
    "blocks": "a matrix product with the ops of its rows, {rows}",
    "columns": "a reduction along outer axes, {rows} stay, with elementwise ops",
    "matrix": "a matrix product with its epilogue",
    "points": "elementwise ops of its result",
}


@attrs.frozen
class FusionBoundary:
    """A kernel or op that reads a result of another one, and why they were not fused."""

    producer: str  # a kernel, or an op
    reader: str
    producer_op: str  # the op, with its location
    reader_op: str
    reason: str


@attrs.define
class FusionLog:
    """The fusion decisions of a lowered module: the groups of each kernel, the decisions, and the
    ops that are not part of a kernel."""

    groups: dict[str, tuple[Group, ...]] = attrs.Factory(dict)
    decisions: list[Decision] = attrs.Factory(list)
    inlined: list[str] = attrs.Factory(list)  # ops whose readers read their operands instead
    remaining: list[tuple[Binding, str]] = attrs.Factory(list)

    requested: set[str] = attrs.Factory(set)  # kernels that the user fused

    def request(self, kernel: str, fused: Sequence[str]) -> None:
        """Notes a kernel that the user fused from others."""
        self.groups[kernel] = tuple([g for name in fused for g in self.groups.get(name, ())])
        self.requested.add(kernel)

    def add(
        self,
        before: LoopProgram,
        after: LoopProgram,
        decisions: Sequence[Decision],
        groups: dict[str, tuple[Group, ...]],
    ) -> None:
        """Adds a region: its program before and after view inlining, and its kernels."""
        self.groups |= groups
        self.decisions += decisions
        kept = {stage.origin for stage in after.stages}
        self.inlined += dict.fromkeys([s.origin for s in before.stages if s.origin not in kept])

    def origins(self, kernel: str) -> tuple[str, ...]:
        """Returns the ops of a kernel, with locations."""
        groups = self.groups.get(kernel, ())
        return tuple(dict.fromkeys(origin for group in groups for origin in group.origins))

    def reason(self, kernel: str) -> str:
        """Returns why the ops of a kernel were fused."""
        if kernel in self.requested:
            return "fused on request"
        groups = self.groups[kernel]
        reasons = [_reason(group) for group in groups if len(group.stages) > 1]
        if len(groups) > 1:
            reasons.append("parts of one result")
        return "; ".join(dict.fromkeys(reasons)) or "one op"

    def boundaries(self) -> Iterator[FusionBoundary]:
        """Yields the pairs of ops that were not fused and that different kernels compute."""
        homes: dict[Buffer, str] = {
            stage.out: name
            for name, groups in self.groups.items()
            for group in groups
            for stage in group.stages
        }
        for each in self.decisions:
            ends = homes.get(each.producer.out), homes.get(each.reader.out)
            if each.reason != FUSED and None not in ends and ends[0] != ends[1]:
                origins = each.producer.origin, each.reader.origin
                yield FusionBoundary(*ends, *origins, each.reason)  # type: ignore[arg-type]


def _reason(group: Group) -> str:
    extents = {axis: size for stage in group.stages for axis, size in stage.extents.items()}
    rows = " x ".join([dims.text(extents[axis]) for axis in group.rows if axis in extents])
    if group.kind in KINDS:
        return KINDS[group.kind].format(rows=rows)
    if all(stage.parallel == group.rows and not stage.reduce for stage in group.stages):
        return f"elementwise ops over the same elements, {rows}"
    return f"common rows, {rows}" if rows else "reductions over the same elements"

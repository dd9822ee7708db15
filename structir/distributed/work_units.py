"""Groups the steps of a program into units: each is cut in one way and runs on one set of workers.

A unit is one step, or a conditional with all steps that only it uses, because their evaluation
depends on its condition.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from structir.ir.expr import Call, Constant
from structir.ir.op import Op
from structir.projections.program import BranchOrigin, CallOrigin, Program, leaves
from structir.projections.region_propagation import RegionStep
from structir.projections.row_blocks import RowBlocks
from structir.projections.spec import IndexSpec

Key = Hashable  # of a tensor of the program


@attrs.frozen(eq=False)
class WorkUnit:
    """Steps that are cut together, the tensors that they read, and those that others use."""

    index: int
    steps: tuple[RegionStep, ...]
    inputs: tuple[Key, ...]
    outputs: tuple[Key, ...]

    @property
    def spec(self) -> IndexSpec | None:
        """The loops of a unit of one step, if it has any."""
        origin = self.steps[0].origin
        return origin.spec if len(self.steps) == 1 and isinstance(origin, CallOrigin) else None

    @property
    def rows(self) -> RowBlocks | None:
        """The blocks of a unit of one op on rows whose starts are known."""
        origin = self.steps[0].origin
        return origin.rows if len(self.steps) == 1 and isinstance(origin, CallOrigin) else None

    @property
    def name(self) -> str:
        """The name of its first result."""
        return key_name(self.outputs[0])

    @property
    def op(self) -> str:
        """The op of the call, or `if`."""
        origin = self.steps[-1].origin
        if len(self.steps) > 1 or not isinstance(origin, CallOrigin):
            return "if"
        return origin.call.op.name if isinstance(origin.call.op, Op) else str(origin.call.op)

    @property
    def span(self) -> Any:
        """The source location of its call."""
        origins = [s.origin for s in self.steps if isinstance(s.origin, CallOrigin)]
        return origins[-1].call.span if origins else None


def key_name(key: Any) -> str:
    """Returns the name of a tensor of a program, such as `x` or `pair[1]`. A value inside of a
    decomposed call has the name of its op in parentheses."""
    owner, path = key
    name = getattr(owner, "name", "constant")
    if isinstance(owner, Call):
        name = f"({owner.op.name if isinstance(owner.op, Op) else owner.op})"
    return name + "".join([f"[{k}]" for k in path])


def work_units(program: Program) -> tuple[WorkUnit, ...]:
    """Returns the units that the result of a program depends on, in an order of execution."""
    live = _live_steps(program)
    groups = _merge_branches(live, set(leaves(program.result)))
    produced = [{k for s in group for k in s.outputs} for group in groups]
    used: set[Key] = set(leaves(program.result))
    for group, own in zip(groups, produced, strict=True):
        used |= {k for s in group for k in s.inputs if k is not None and k not in own}
    units = []
    for index, (group, own) in enumerate(zip(groups, produced, strict=True)):
        inputs = dict.fromkeys(k for s in group for k in s.inputs if is_tensor(k) and k not in own)
        outputs = dict.fromkeys(k for s in group for k in s.outputs if k in used)
        units.append(WorkUnit(index, tuple(group), tuple(inputs), tuple(outputs)))
    return tuple(units)


def is_tensor(key: Any) -> bool:
    """Whether an operand is a tensor that a worker receives; small constants are in the program."""
    return key is not None and not isinstance(key[0], Constant)


def _live_steps(program: Program) -> list[RegionStep]:
    used = set(leaves(program.result))
    live: list[RegionStep] = []
    for step in reversed(program.steps):
        if not used.isdisjoint(step.outputs):
            used.update([k for k in step.inputs if k is not None])
            live.append(step)
    return live[::-1]


def _merge_branches(steps: Sequence[RegionStep], results: set[Key]) -> list[list[RegionStep]]:
    """Returns the steps in groups: those of one result together, and each conditional with the
    steps that only it uses."""
    groups, group_of = _groups_of_results(steps)
    owner = _owners(groups, group_of, results)
    merged: dict[int, list[RegionStep]] = {}
    for number, group in enumerate(groups):
        merged.setdefault(owner[number], []).extend(group)
    return [merged[number] for number in sorted(merged) if merged[number]]


def _groups_of_results(
    steps: Sequence[RegionStep],
) -> tuple[list[list[RegionStep]], dict[Key, int]]:
    """Returns the steps that compute common results together, and the group of each result.

    The step of a condition has all results of its conditional, so it joins their steps.
    """
    groups: list[list[RegionStep]] = []
    group_of: dict[Key, int] = {}
    for step in steps:
        joined = sorted({group_of[k] for k in step.outputs if k in group_of})
        first, *others = joined or [len(groups)]
        if not joined:
            groups.append([])
        moved = [moved_step for other in others for moved_step in groups[other]]
        for other in others:
            groups[other] = []
        groups[first] += [*moved, step]
        group_of.update({k: first for each in (*moved, step) for k in each.outputs})
    return groups, group_of


def _owners(
    groups: Sequence[Sequence[RegionStep]], group_of: Mapping[Key, int], results: set[Key]
) -> list[int]:
    """Returns the group that each group is evaluated with: a conditional, or itself."""
    users: list[set[int]] = [set() for _ in groups]
    for number, group in enumerate(groups):
        for key in _inputs(group):
            if key in group_of:
                users[group_of[key]].add(number)
    owner = list(range(len(groups)))
    for number in reversed(range(len(groups))):
        owners = {owner[user] for user in users[number] - {number}}
        is_result = any(k in results for step in groups[number] for k in step.outputs)
        if len(owners) == 1 and not is_result:
            (only,) = owners
            if any(isinstance(s.origin, BranchOrigin) for s in groups[only]):
                owner[number] = only
    return owner


def _inputs(group: Sequence[RegionStep]) -> Iterator[Key]:
    return (key for step in group for key in step.inputs if key is not None)

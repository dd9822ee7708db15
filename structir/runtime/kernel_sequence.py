"""Recipes: the generated kernels and the boundary of a lowered region, without its stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod

import attrs

from structir.interrupts import collection_paused
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.loops.fusion.group import Group
from structir.loops.kernel.schedule import Scheduled, scheduled
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import Expression, Operation, Position, walk
from structir.loops.program.kernel_text import KernelText
from structir.loops.program.stage import LoopProgram, Stage
from structir.loops.regions.region import LoweredRegion, SizeCheck, buffers_of
from structir.runtime.plans.sizes import symbols_of


@attrs.frozen
class Assumed:
    """A region under equations between sizes that usually hold: symbols replaced by others."""

    region: LoweredRegion
    equal: Mapping[Sym, Dim]


@attrs.frozen(eq=False)
class KernelSequence:
    """The kernels of a program in execution order, its external buffers, and fusion decisions if
    just generated."""

    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    results: tuple[Buffer, ...]  # the results of the region, in order
    kernels: tuple[KernelText, ...]
    operations: tuple[Dim, ...]  # arithmetic operations and function calls of each kernel
    overwritten: tuple[Buffer, ...] = ()  # the inputs whose memory results take
    schedule: Callable[[], Scheduled | None] | None = None

    @property
    def scheduled(self) -> Scheduled | None:
        """The groups and the fusion decisions; None if the kernels are from a file."""
        return None if self.schedule is None else self.schedule()


@attrs.frozen(eq=False)
class Boundary:
    """The inputs, results and assumptions of a region, independent of its kernels.

    If the equations hold, which is the usual case, the region has kernels of another form.
    """

    inputs: tuple[Buffer, ...]
    results: tuple[Buffer, ...]
    checks: tuple[SizeCheck, ...]
    free_symbols: tuple[Sym, ...]  # not determined by the shapes of the inputs
    doubtful: tuple[Dim, ...]  # sizes that may be negative, such as `n - 3`
    equal: Mapping[Sym, Dim]


@collection_paused()
def recipe_of(
    region: LoweredRegion, schedule: Callable[[LoopProgram], Scheduled] = scheduled
) -> KernelSequence:
    """Generates the kernels of a region."""
    result = schedule(region.program)
    moved = result.moved
    results = tuple([moved.get(b, b) for o in region.outputs for b in buffers_of(o)])
    operations = tuple([_operations(group) for group in result.made_from])
    program = result.program
    outputs = tuple([moved.get(b, b) for b in program.outputs])
    donors = {now.root: None for b, now in moved.items() if now.root is not b.root}
    overwritten = tuple([b for b in program.inputs if b in donors])
    return KernelSequence(
        program.inputs, outputs, results, result.kernels, operations, overwritten, lambda: result
    )


def writer_of(
    region: LoweredRegion,
    assumed: Assumed | None,
    schedule: Callable[[LoopProgram], Scheduled] = scheduled,
) -> Callable[[bool], KernelSequence]:
    """Returns the function that generates the general form of a region, or the one under the usual
    equations."""

    def write(under_equations: bool) -> KernelSequence:
        usual = assumed.region if under_equations and assumed is not None else region
        sequence = recipe_of(usual, schedule)
        if usual.complete is None:
            return sequence
        complete: KernelSequence = usual.complete(sequence, partial(recipe_of, schedule=schedule))
        return complete

    return write


def boundary_of(region: LoweredRegion, assumed: Assumed | None) -> Boundary:
    """Returns the external interface of a region."""
    inputs = region.program.inputs
    input_symbols = {dims.as_sym(d) for b in inputs for d in b.shape}
    free_symbols = tuple([s for s in _symbols_of(region) if s not in input_symbols])
    results = tuple([b for o in region.outputs for b in buffers_of(o)])
    equal = assumed.equal if assumed else {}
    return Boundary(
        inputs, results, region.checks, free_symbols, doubtful_sizes(region.program), equal
    )


def _operations(group: Group) -> Dim:
    counts = [(stage, _operations_at_a_point(stage)) for stage in group.stages]
    extents = [(prod([s.extents[axis] for axis in s.axes]), count) for s, count in counts if count]
    return sum([points * count for points, count in extents])


def _operations_at_a_point(stage: Stage) -> int:
    operations = sum(isinstance(node, Operation) for node in walk(stage.body))
    return operations + (stage.monoid is not None)


def doubtful_sizes(program: LoopProgram) -> tuple[Dim, ...]:
    """Returns the sizes of buffers that may be negative, such as `n - 3`."""
    sizes = {d: None for buffer in program.buffers() for d in buffer.shape}
    lower_bounds = [(d, dims.bounds(d)[0]) for d in sizes]
    return tuple([d for d, bound in lower_bounds if bound is None or bound < 0])


def _symbols_of(region: LoweredRegion) -> Sequence[Sym]:
    """Returns the program's symbols that a region mentions anywhere."""
    values = [d for b in region.program.buffers() for d in b.shape]
    values += [d for c in region.checks for d in (c.left, c.right)]
    axes: set[Sym] = set()
    for stage in region.program.stages:
        axes |= set(stage.axes)
        values += [*stage.extents.values(), *[g.value for g in stage.guards]]
        values += stage.routine.sizes if stage.routine is not None else ()
        entries = [*stage.write, *[e for read in stage.loads for e in read.entries]]
        values += [e for e in entries if not isinstance(e, Expression)]
        values += [n.dim for n in walk(stage.body) if isinstance(n, Position)]
    return [s for s in symbols_of(values) if s not in axes]

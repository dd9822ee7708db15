"""Executes the tasks of a mesh plan on a worker: level functions and combinations of partials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import attrs

from structir.distributed.assembly import reduce_pairwise, slices
from structir.distributed.distinct_names import unused_name
from structir.distributed.mesh_schedule import (
    BlockInput,
    CombineTask,
    LevelTask,
    PieceSource,
    UnitPart,
)
from structir.distributed.planner import Planner, make_planner
from structir.distributed.reductions import COMBINE, narrowed_step
from structir.distributed.shard_function import PartialResults, ShardFunction
from structir.distributed.work_units import WorkUnit, work_units
from structir.distributed.worker import (
    FILE,
    Run,
    ShardProgram,
    located_error,
    threads_of_task,
)
from structir.ir.dims import Sym
from structir.ir.dtype import numpy_dtype
from structir.ir.expr import Function
from structir.ir.module import IRModule
from structir.ir.op import clear_on_redeclaration
from structir.ir.structural import structural_equal, structural_hash
from structir.lazy import lazy_module
from structir.printer.parser.parser import parse
from structir.projections.boxes import Bounds, region
from structir.projections.program import info_of
from structir.projections.region_propagation import RegionStep, required_regions
from structir.projections.restriction import Range, widths
from structir.targets.compile import compile as compile_module

np = lazy_module("numpy")
Value = Any


@attrs.frozen(eq=False)
class MeshWorkerState:
    """A program on one worker, with its compiled level functions."""

    others: IRModule
    planner: Planner
    units: tuple[WorkUnit, ...]
    num_threads: int | None
    keys: tuple[Any, ...]  # of the values, by index
    parts: dict[tuple[int, ...], PartialResults] = attrs.Factory(dict)
    functions: dict[Any, ShardFunction] = attrs.Factory(dict)
    compiled: dict[int, list[tuple[ShardFunction, Run]]] = attrs.Factory(dict)

    def level_function(self, task: LevelTask) -> ShardFunction:
        """Returns the function that a task runs, generated on first use."""
        key = (task.parts, task.outputs)
        if key not in self.functions:
            self.functions[key] = self._generate(task)
        return self.functions[key]

    def _generate(self, task: LevelTask) -> ShardFunction:
        numbers = tuple([part.unit for part in task.parts])
        units = [self.units[number] for number in numbers]
        steps = tuple([step for unit in units for step in unit.steps])
        if numbers not in self.parts:
            self.parts[numbers] = PartialResults(attrs.evolve(self.planner.program, steps=steps))
        narrowed = {
            unit.steps[0]: self._ranges(part, unit)
            for part, unit in zip(task.parts, units, strict=True)
            if part.ranges
        }
        blocks = {self.keys[k]: region(*b) for part in task.parts for k, b in part.blocks}
        regions = required_regions([self._narrow(s, narrowed) for s in steps], blocks)
        results = {self.keys[value]: bounds for value, bounds in task.outputs}
        return self.parts[numbers].part(regions, results, narrowed)

    def _ranges(self, part: UnitPart, unit: WorkUnit) -> dict[Sym, Range]:
        assert unit.spec is not None
        loops = unit.spec.statements[0].reduce
        return {loops[position]: positions for position, positions in part.ranges}

    def _narrow(
        self, step: RegionStep, narrowed: Mapping[RegionStep, Mapping[Sym, Range]]
    ) -> RegionStep:
        if step not in narrowed:
            return step
        return narrowed_step(step, narrowed[step])

    def run(
        self, task: LevelTask, values: Mapping[int, Value], plain: Mapping[str, Value]
    ) -> tuple[Value, ...]:
        """Computes the output blocks of a task from its input blocks."""
        function = self.level_function(task)
        available = {block.value: block.bounds for block in task.inputs}
        index_of = {key: index for index, key in enumerate(self.keys)}
        args = []
        for key, bounds in function.inputs:
            if bounds is None:
                args.append(plain[key.name])  # type: ignore[attr-defined]
                continue
            index = index_of[key]
            args.append(_within(values[index], available[index], bounds))
        blocks = self.executable(function)(function.sizes, *args)
        return blocks if isinstance(blocks, tuple) else (blocks,)

    def executable(self, function: ShardFunction) -> Run:
        """Returns the compiled function; equal functions, as those of equal layers, share it."""
        same = self.compiled.setdefault(structural_hash(function.function), [])
        for other, run in same:
            if _computes_same(other, function):
                return run
        name = unused_name("level", self.others.functions)
        functions = {**self.others.functions, **function.kernels, name: function.function}
        module = IRModule(functions)
        same.append((function, compile_module(module, num_threads=self.num_threads)[name]))
        return same[-1][1]


def _computes_same(first: ShardFunction, second: ShardFunction) -> bool:
    """Whether two functions are equal up to names, with equal kernels."""
    same_kernels = first.kernels.keys() == second.kernels.keys() and all(
        structural_equal(kernel, second.kernels[name]) for name, kernel in first.kernels.items()
    )
    return same_kernels and structural_equal(first.function, second.function)


def _within(value: Value, available: Bounds, bounds: Bounds) -> Value:
    """Returns a block of an available block."""
    if available == bounds:
        return value
    start = available[0]
    moved = [slice(a - s, b - s) for s, a, b in zip(start, bounds[0], bounds[1], strict=True)]
    return np.asarray(value[tuple(moved)], order="C")


@lru_cache(8)
def mesh_worker_state(program: ShardProgram) -> MeshWorkerState:
    """Returns the state of a program on this worker; each worker parses a program once."""
    module = parse(program.source, FILE)
    function = module.functions[program.name]
    assert isinstance(function, Function)
    planner = make_planner(function, dict(program.sizes), program.name, module=module)
    others = {name: f for name, f in module.functions.items() if name != program.name}
    return MeshWorkerState(
        IRModule(others),
        planner,
        work_units(planner.program),
        threads_of_task(program.concurrent_tasks),
        tuple(planner.program.shapes),
    )


clear_on_redeclaration(mesh_worker_state.cache_clear)


def run_level(
    program: ShardProgram, task: LevelTask, plain: Mapping[str, Value], *pieces: Value
) -> tuple[Value, ...]:
    """Runs a level task on the pieces of its inputs, in order.

    Raises StructIRError with the locations of the original program where it fails.
    """
    try:
        state = mesh_worker_state(program)
        values, position = {}, 0
        for block in task.inputs:
            own = pieces[position : position + len(block.sources)]
            position += len(own)
            values[block.value] = _assemble(state, block, own)
        return state.run(task, values, plain)
    except Exception as error:
        _, batch, (stage, at), level = task.name
        place = f"worker {at} of stage {stage}, level {level}, micro-batch {batch}"
        raise located_error(program, place, error) from None


def _assemble(state: MeshWorkerState, block: BlockInput, pieces: Sequence[Value]) -> Value:
    """Returns a block from its pieces."""
    if len(pieces) == 1 and block.sources[0].part == block.bounds:
        return pieces[0]
    dtype = numpy_dtype(info_of(state.keys[block.value]).dtype)
    result = np.empty(widths(block.bounds), dtype)
    for source, piece in zip(block.sources, pieces, strict=True):
        result[slices(relative(source.part, block.bounds))] = piece
    return result


def run_combine(task: CombineTask, *pieces: Value) -> tuple[Value, ...]:
    """Combines partial results of one block, pairwise in order."""
    function = getattr(np, COMBINE[task.monoid])
    value = reduce_pairwise(pieces, lambda a, b: function(a, b).astype(a.dtype, copy=False))
    return (value,)


def take_piece(outputs: Sequence[Value], source: PieceSource) -> Value:
    """Returns the part of an output of a task that a source names."""
    value = outputs[source.output]
    if source.part == source.held:
        return value
    return np.asarray(value[slices(relative(source.part, source.held))], order="C")


def relative(bounds: Bounds, origin: Bounds) -> Bounds:
    """Returns a block relative to the start of another."""
    start = tuple([a - s for a, s in zip(bounds[0], origin[0], strict=True)])
    return start, tuple([b - s for b, s in zip(bounds[1], origin[0], strict=True)])

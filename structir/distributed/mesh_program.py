"""Programs on a mesh of workers: callable like the original, in this process or on Dask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from structir.distributed.assembly import slices
from structir.distributed.mesh_plan import MeshPlan, result_keys
from structir.distributed.mesh_schedule import CombineTask, LevelTask, MeshSchedule, PieceSource
from structir.distributed.mesh_worker import run_combine, run_level, take_piece
from structir.distributed.sharded import Sharded, named_tensors
from structir.distributed.worker import ShardProgram
from structir.errors import StructIRError
from structir.lazy import lazy_module
from structir.system.locks import cached_property

np = lazy_module("numpy")
mesh_dask = lazy_module("structir.distributed.mesh_dask")
Value = Any
Sizes = tuple[tuple[str, Any], ...]


@attrs.frozen(eq=False)
class MeshProgram:
    """A function with the choices of a mesh plan. Plans are cached per sizes."""

    original: Sharded  # arguments, constants and text of the function
    first_plan: MeshPlan
    weights: tuple[str, ...] = ()  # parameters that are placed once
    plans: dict[Sizes, MeshPlan] = attrs.Factory(dict)
    schedules: dict[MeshPlan, tuple[LevelTask | CombineTask, ...]] = attrs.Factory(dict)
    programs: dict[MeshPlan, ShardProgram] = attrs.Factory(dict)

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.original.name

    def plan(self, /, *args: Value, **names: Value) -> MeshPlan:
        """Returns the plan for the sizes of these arguments."""
        return self.plan_for(self.original.arguments(args, names))

    def plan_for(self, args: Sequence[Value]) -> MeshPlan:
        """Returns the plan for arguments of all parameters."""
        return self.plan_of(self.original.sizes(args))

    def plan_of(self, sizes: Mapping[str, Any]) -> MeshPlan:
        """Returns the plan for symbolic sizes and row lengths."""
        key = tuple(sorted(sizes.items()))
        if key not in self.plans:
            plan = self.first_plan
            if key != tuple(sorted(plan.planner.sizes.items())):
                plan = attrs.evolve(plan, planner=self.original.prepared.planner(sizes))
            self.plans[key] = plan
        return self.plans[key]

    def tasks(self, plan: MeshPlan) -> tuple[LevelTask | CombineTask, ...]:
        """Returns the tasks of a plan."""
        if plan not in self.schedules:
            self.schedules[plan] = tuple(MeshSchedule(plan).tasks())
        return self.schedules[plan]

    def shard_program(self, plan: MeshPlan) -> ShardProgram:
        """Returns the program that a worker needs to run the tasks of a plan."""
        if plan not in self.programs:
            self.programs[plan] = self.original.program_at(plan.planner.sizes)
        return self.programs[plan]

    def __call__(self, /, *args: Value, **names: Value) -> Value:
        """Computes the result for NumPy arguments, task after task in this process."""
        args = self.original.arguments(args, names)
        plan = self.plan_for(args)
        run = LocalRun(self, plan, self.values(plan, args))
        for task in self.tasks(plan):
            run.run(task)
        results = self.results(plan, run.values, run.piece)
        return self.original.result(plan.program, results, args)

    def values(self, plan: MeshPlan, args: Sequence[Value]) -> dict[str, Value]:
        """Returns the inputs by their name in the plan, and constants."""
        inputs: dict[str, Value] = dict(plan.planner.constants)
        for param, value in zip(self.original.function.params, args, strict=True):
            inputs.update(named_tensors(param.name, param.struct_info, value))
        return inputs

    def results(self, plan: MeshPlan, inputs: Mapping[str, Value], piece: Any) -> Iterator[Value]:
        """Yields the tensors of the result, copied together from the blocks that workers hold."""
        schedule = MeshSchedule(plan)
        for key in result_keys(plan.program):
            yield self._result(plan, schedule, key, inputs, piece)

    def _result(
        self,
        plan: MeshPlan,
        schedule: MeshSchedule,
        key: Any,
        inputs: Mapping[str, Value],
        piece: Any,
    ) -> Value:
        if key not in plan.unit_of:
            name = plan.parameters.get(key)
            return np.asarray(key[0].data if name is None else inputs[name])
        tensor = plan.planner.results[key]
        result = np.empty(tensor.shape, tensor.dtype)
        for batch in range(plan.choices.micro_batches):
            for source in schedule.results(batch, key):
                result[slices(source.part)] = piece(source)
        return result

    def on(self, client: Any, /, **weights: Value) -> Any:
        """Returns the program on the workers of a Dask client, with its weights placed.

        Each worker receives its blocks of the weights once; calls take the other arguments."""
        return mesh_dask.place(self, client, weights)


@attrs.frozen(eq=False)
class LocalRun:
    """One execution of a plan in this process."""

    program: MeshProgram
    plan: MeshPlan
    values: Mapping[str, Value]
    outputs: dict[Any, tuple[Value, ...]] = attrs.Factory(dict)

    @cached_property
    def names(self) -> tuple[str | None, ...]:
        """The name of the parameter at each index of a value."""
        return tuple([self.plan.parameters.get(key) for key in self.plan.program.shapes])

    @cached_property
    def plain(self) -> dict[str, Value]:
        """The arguments that are not tensors."""
        return {param.name: self.values[param.name] for param in self.plan.planner.plain}

    def piece(self, source: PieceSource) -> Value:
        """Returns a piece of an input."""
        if source.task is not None:
            return take_piece(self.outputs[source.task], source)
        name = self.names[source.output]
        assert name is not None
        return np.asarray(self.values[name][slices(source.part)], order="C")

    def run(self, task: LevelTask | CombineTask) -> None:
        """Runs a task."""
        pieces = [self.piece(source) for source in sources_of(task)]
        if isinstance(task, CombineTask):
            self.outputs[task.name] = run_combine(task, *pieces)
            return
        shard_program = self.program.shard_program(self.plan)
        self.outputs[task.name] = run_level(shard_program, task, self.plain, *pieces)


def sources_of(task: LevelTask | CombineTask) -> Iterator[PieceSource]:
    """Yields the pieces that a task receives, in order."""
    if isinstance(task, CombineTask):
        yield from task.sources
    else:
        for block in task.inputs:
            yield from block.sources


def check_weights(program: MeshProgram, weights: Mapping[str, Value]) -> None:
    """Raises StructIRError unless the arrays are those of the weights of a program."""
    expected = program.weights
    if set(weights) != set(expected):
        missing = ", ".join(sorted(set(expected) - weights.keys())) or "none"
        extra = ", ".join(sorted(weights.keys() - set(expected))) or "none"
        raise StructIRError(
            f"{program.name}: expected the weights {', '.join(expected)}; "
            f"missing: {missing}; not weights: {extra}",
            code="E0915",
        )

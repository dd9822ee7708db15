"""Runs mesh plans on Dask workers. Weights are placed once; values move between workers only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

import attrs

from structir.distributed.assembly import slices
from structir.distributed.dask_executor import check_dask, concurrent_tasks
from structir.distributed.layouts import contains
from structir.distributed.mesh_plan import MeshPlan, Worker
from structir.distributed.mesh_program import MeshProgram, check_weights, sources_of
from structir.distributed.mesh_schedule import CombineTask, LevelTask, PieceSource
from structir.distributed.mesh_worker import run_combine, run_level, take_piece
from structir.distributed.worker import ShardProgram
from structir.lazy import lazy_module
from structir.projections.boxes import Bounds
from structir.system.locks import cached_property

np = lazy_module("numpy")
cluster = lazy_module("distributed")

Value = Any
ATTEMPTS = 4  # executions of a call whose workers are lost


def place(program: MeshProgram, client: Any, weights: Mapping[str, Value]) -> PlacedProgram:
    """Returns a program with its weights on the workers of a client."""
    check_dask()
    plan = program.first_plan
    check_weights(program, weights)
    arguments, tensors = program.original.weight_arguments(weights)
    arrays = {**plan.planner.constants, **tensors}
    placed = PlacedProgram(program, client, arguments, arrays)
    placed.place_missing(plan)
    return placed


@attrs.frozen(eq=False)
class PlacedProgram:
    """A program with its weights on Dask workers. Calls send the other arguments only.

    Work of a lost worker runs on the remaining ones; its blocks of the weights are placed again.
    """

    program: MeshProgram
    client: Any
    arguments: Mapping[str, Value]  # the weights by parameter
    weights: Mapping[str, Value]  # the weights and constants by name in the plan
    held: dict[tuple[Worker, str, Bounds], Any] = attrs.Factory(dict)  # futures
    placements: list[int] = attrs.Factory(list)  # bytes sent by each placement of weights

    def addresses(self) -> list[str]:
        """Returns the addresses of the Dask workers."""
        addresses = sorted(self.client.scheduler_info(n_workers=-1)["workers"])
        if not addresses:
            self.client.wait_for_workers(1, timeout=60)
            addresses = sorted(self.client.scheduler_info(n_workers=-1)["workers"])
        return addresses

    def address(self, plan: MeshPlan, worker: Worker, addresses: Sequence[str]) -> str:
        """Returns the Dask worker of a worker of the plan; several may share one."""
        return addresses[plan.workers.index(worker) % len(addresses)]

    def place_missing(self, plan: MeshPlan) -> None:
        """Sends each worker the blocks of weights that no worker holds for it."""
        addresses, sent = self.addresses(), 0
        alive = self._alive()
        for worker, blocks in plan.weight_blocks.items():
            for name, bounds in blocks.items():
                if (worker, name, bounds) in alive:
                    continue
                block = np.asarray(self.weights[name][slices(bounds)], order="C")
                address = self.address(plan, worker, addresses)
                self.held[worker, name, bounds] = self.client.scatter(
                    block, workers=[address], hash=False
                )
                sent += block.nbytes
        if sent:
            self.placements.append(sent)

    def _alive(self) -> set[tuple[Worker, str, Bounds]]:
        """Returns the placed blocks that are not lost."""
        return {key for key, future in self.held.items() if future.status == "finished"}

    def __call__(self, /, *args: Value, **names: Value) -> Value:
        """Computes the result as NumPy arrays; the arguments are those that are not weights."""
        original = self.program.original
        args = original.arguments_beside(self.arguments, args, names)
        plan = self.program.plan_for(args)
        inputs = self.program.values(plan, args)
        lost = (CancelledError, OSError, cluster.KilledWorker)
        for _ in range(ATTEMPTS - 1):
            with suppress(*lost):
                self.place_missing(plan)
                return original.result(plan.program, self._run(plan, inputs), args)
        self.place_missing(plan)
        return original.result(plan.program, self._run(plan, inputs), args)

    def _run(self, plan: MeshPlan, inputs: Mapping[str, Value]) -> Iterable[Value]:
        run = DaskRun(self, plan, inputs, self.addresses())
        for task in self.program.tasks(plan):
            run.submit(task)
        return list(self.program.results(plan, inputs, run.gather))


@attrs.frozen(eq=False)
class DaskRun:
    """One execution of a plan: a future for each task."""

    placed: PlacedProgram
    plan: MeshPlan
    inputs: Mapping[str, Value]
    addresses: Sequence[str]
    outputs: dict[Any, Any] = attrs.Factory(dict)

    @cached_property
    def names(self) -> tuple[str | None, ...]:
        """The name of the parameter at each index of a value."""
        return tuple([self.plan.parameters.get(key) for key in self.plan.program.shapes])

    @cached_property
    def shard_program(self) -> ShardProgram:
        """The program, with the number of tasks that share the cores of a machine."""
        program = self.placed.program.shard_program(self.plan)
        tasks = concurrent_tasks(self.placed.client)
        return attrs.evolve(program, concurrent_tasks=tasks)

    @cached_property
    def plain(self) -> dict[str, Value]:
        """The arguments that are not tensors."""
        return {param.name: self.inputs[param.name] for param in self.plan.planner.plain}

    def submit(self, task: LevelTask | CombineTask) -> None:
        """Submits a task to its worker, with its pieces sent from their holders."""
        pieces = [self.piece(source, task.worker) for source in sources_of(task)]
        if isinstance(task, CombineTask):
            self.outputs[task.name] = self._on(task.worker, run_combine, task, *pieces)
            return
        self.outputs[task.name] = self._on(
            task.worker, run_level, self.shard_program, task, self.plain, *pieces
        )

    def _on(self, worker: Worker, function: Any, *args: Value) -> Any:
        """Submits a function to the Dask worker of a worker of the plan."""
        address = self.placed.address(self.plan, worker, self.addresses)
        return self.placed.client.submit(
            function, *args, workers=[address], allow_other_workers=True, pure=False
        )

    def piece(self, source: PieceSource, worker: Worker) -> Value:
        """Returns a piece of an input: taken at its holder, so that only the piece is sent."""
        if source.task is not None:
            holder = source.task[2]
            return self._on(holder, take_piece, self.outputs[source.task], source)
        name = self.names[source.output]
        assert name is not None
        if name in self.plan.weights:
            return self._weight(name, source, worker)
        value = self.inputs[name]
        return np.asarray(value[slices(source.part)], order="C")

    def _weight(self, name: str, source: PieceSource, worker: Worker) -> Value:
        """Returns a block of a weight that the worker holds."""
        held = self.plan.weight_blocks[worker][name]
        future = self.placed.held[worker, name, held]
        if held == source.part:
            return future
        assert contains(held, source.part)
        part = attrs.evolve(source, held=held, output=0)
        return self._on(worker, take_block, future, part)

    def gather(self, source: PieceSource) -> Value:
        """Returns a piece of a result."""
        assert source.task is not None
        holder = source.task[2]
        return self._on(holder, take_piece, self.outputs[source.task], source).result()


def take_block(block: Value, source: PieceSource) -> Value:
    """Returns a part of a placed block."""
    return take_piece((block,), source)

"""Executes shards on a worker: parses the program once, compiles each distinct shard function
once, and runs it on the received blocks."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import attrs

from structir.analysis.variables import symbols_in, walk
from structir.distributed.distinct_names import unused_name, with_dim_names, with_param_names
from structir.distributed.plan import Piece, Shard
from structir.distributed.planner import Blocks, Planner, make_planner
from structir.distributed.shard_function import PartialResults, ShardFunction
from structir.errors import StructIRError
from structir.ir.expr import Call, Function
from structir.ir.module import IRModule
from structir.ir.op import clear_on_redeclaration
from structir.ir.structural import correspondence
from structir.lazy import lazy_module
from structir.printer.parser.parser import parse
from structir.targets.compile import compile as compile_module
from structir.targets.cpu.threads import VARIABLE, physical_cores

np = lazy_module("numpy")

FILE = "<program>"  # file name of the parsed source
Value = Any
Run = Callable[..., Value]


@attrs.frozen
class ShardProgram:
    """The picklable part of a plan that a worker needs."""

    source: str
    name: str
    sizes: tuple[tuple[str, Any], ...]  # with the row lengths of ragged parameters
    pieces: int
    locations: tuple[tuple[int, str], ...]  # lines of `source` and their original locations
    origin: str  # name and location of the original function
    names: tuple[tuple[str, str], ...] = ()  # of dims and parameters, by those of `source`
    concurrent_tasks: int = 1  # on each machine


@attrs.frozen
class Task:
    """One shard as it is sent to a worker."""

    index: int
    blocks: Blocks
    piece: Piece
    names: tuple[str, ...]  # of the values sent with it
    bytes_in: int


def make_shard_program(
    name: str, function: Function, others: Mapping[str, Any], sizes: Mapping[str, Any], pieces: int
) -> ShardProgram:
    """Returns the program of a function at sizes; `others` are the functions that it calls."""
    origin = f"{name} at {function.span}" if function.span is not None else name
    name = unused_name(name, others)  # a recursive function also calls its original
    source = IRModule({**others, name: function}).script()
    parsed: Any = parse(source, FILE).functions[name]
    pairs = zip(_calls(parsed), _calls(function), strict=True)
    locations = {a.span.line: str(b.span) for a, b in pairs if a.span is not None and b.span}
    original = correspondence(function, parsed)
    named = [
        (v.name, original[v].name) for v in (*symbols_in(parsed), *parsed.params) if v in original
    ]
    return ShardProgram(
        source,
        name,
        tuple(sorted(sizes.items())),
        pieces,
        tuple(locations.items()),
        origin,
        tuple([(printed, name) for printed, name in named if printed != name]),
    )


def _calls(function: Any) -> list[Call]:
    return [part for part in walk(function) if isinstance(part, Call)]


def make_task(shard: Shard) -> Task:
    """Returns the task of a shard."""
    names = tuple([name for name, _ in shard.inputs])
    return Task(shard.index, shard.results, shard.piece, names, shard.bytes_in)


@attrs.frozen(eq=False)
class WorkerState:
    """A program on one worker, with its compiled shard functions."""

    module: IRModule
    planner: Planner
    parts: PartialResults
    num_threads: int | None = None
    compiled: dict[Any, Run] = attrs.Factory(dict)
    functions: dict[Task, ShardFunction] = attrs.Factory(dict)

    def shard_function(self, task: Task) -> ShardFunction:
        """Returns the function that a task runs, generated on first use."""
        if task not in self.functions:
            self.functions[task] = self._generate(task)
        return self.functions[task]

    def _generate(self, task: Task) -> ShardFunction:
        planner = self.planner
        regions = planner.regions(task.blocks, task.piece)
        pairs = zip(planner.results, task.blocks, strict=True)
        blocks = {key: bounds for key, bounds in pairs if bounds is not None}
        reduction = planner.reduction
        ranges = None
        if reduction is not None:
            ranges = {reduction.step: {reduction.index_var: reduction.range(*task.piece)}}
        return self.parts.part(regions, blocks, ranges)

    def run(self, task: Task, values: Sequence[Value]) -> tuple[Value, ...]:
        """Computes the result blocks of a task."""
        function = self.shard_function(task)
        inputs = dict(zip(task.names, values, strict=True))
        names: dict[Any, str] = {key: tensor.name for key, tensor in self.planner.inputs.items()}
        names |= {param: param.name for param in self.planner.plain}
        args = [inputs[names[key]] for key, _ in function.inputs]
        blocks = self.executable(function)(function.sizes, *args)
        return blocks if isinstance(blocks, tuple) else (blocks,)

    def executable(self, function: ShardFunction) -> Run:
        """Returns the compiled function; functions with equal keys share it."""
        if function.key not in self.compiled:
            others = self.module.functions
            name = unused_name("shard", others)
            module = self.module.with_functions(
                {**others, **function.kernels, name: function.function}
            )
            executable = compile_module(module, num_threads=self.num_threads)
            self.compiled[function.key] = executable[name]
        return self.compiled[function.key]


@lru_cache(8)
def worker_state(program: ShardProgram) -> WorkerState:
    """Returns the state of a program on this worker; each worker parses a program once."""
    module = parse(program.source, FILE)
    function = module.functions[program.name]
    assert isinstance(function, Function)
    if program.names:  # the printer names dims and variables apart
        names = dict(program.names)
        function = with_dim_names(
            function, {s: names.get(s.name, s.name) for s in symbols_in(function)}
        )
        function = with_param_names(
            function, {p: names.get(p.name, p.name) for p in function.params}
        )
    planner = make_planner(function, dict(program.sizes), program.name, program.pieces, module)
    others = {name: f for name, f in module.functions.items() if name != program.name}
    threads = threads_of_task(program.concurrent_tasks)
    return WorkerState(IRModule(others), planner, PartialResults(planner.program), threads)


clear_on_redeclaration(worker_state.cache_clear)


def threads_of_task(concurrent_tasks: int) -> int | None:
    """Returns the number of threads of one task: its share of the cores of this machine.

    STRUCTIR_NUM_THREADS takes precedence.
    """
    if VARIABLE in os.environ:
        return None
    return max(1, physical_cores() // concurrent_tasks)


def run_task(program: ShardProgram, task: Task, *values: Value) -> tuple[Value, ...]:
    """Runs one shard on the received blocks.

    Raises StructIRError with the locations of the original program where it fails.
    """
    state = worker_state(program)
    tensors = {tensor.name for tensor in state.planner.inputs.values()}
    pairs = zip(task.names, values, strict=True)
    received = sum(value.nbytes for name, value in pairs if name in tensors)
    if received != task.bytes_in:
        raise StructIRError(
            f"shard {task.index}: expected {task.bytes_in} bytes, received {received}", code="E0910"
        )
    try:
        return state.run(task, values)
    except Exception as error:
        blocks = ", ".join([f"{a} to {b}" for a, b in [x for x in task.blocks if x is not None]])
        raise located_error(program, f"shard {task.index}", error, f", block {blocks}") from None


def located_error(
    program: ShardProgram, place: str, error: Exception, blocks: str = ""
) -> StructIRError:
    """Returns an error of a worker, with the locations of the original program."""
    locations = dict(program.locations)
    message = re.sub(
        re.escape(FILE) + r":(\d+)(:\d+)?",
        lambda location: locations.get(int(location[1]), location[0]),
        getattr(error, "message", str(error)),
    )
    return StructIRError(f"{place} of {program.origin}{blocks}: {message}", code="E0910")

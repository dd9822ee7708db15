"""What a worker does: it reads the program once, makes the part of a shard, compiles parts that do
the same once, and runs them on the blocks that it was sent."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from functools import lru_cache
from typing import Any

import attrs

from structir.analysis.variables import walk
from structir.backend.compile import compile as compile_module
from structir.distributed.plan import Piece, Plan, Shard
from structir.distributed.planning import Blocks, Planner, planner_of
from structir.distributed.shard_function import PartialResults, ShardFunction
from structir.errors import StructIRError
from structir.ir.expr import Call, Function
from structir.ir.module import IRModule
from structir.lazy import lazy_module
from structir.printer.parser.parser import parse

np = lazy_module("numpy")

FILE = "<program>"  # the name under which a worker reads the text
Value = Any
Run = Callable[..., Value]


@attrs.frozen
class ShardProgram:
    """All that a worker must know of a plan: text and numbers."""

    text: str
    name: str
    sizes: tuple[tuple[str, int], ...]
    pieces: int
    places: tuple[tuple[int, str], ...]  # of lines of the text in the user's program
    whole: str  # where the function stands there


@attrs.frozen
class Task:
    """One shard, as it is sent."""

    index: int
    blocks: Blocks
    piece: Piece
    names: tuple[str, ...]  # of the values that come with it
    bytes_in: int


def recipe_of(plan: Plan, function: Function, others: Mapping[str, Any]) -> ShardProgram:
    """The recipe of a plan; `others` are the functions that the program calls."""
    name = unused(plan.name, others)  # what it calls, it may be itself: whole, and not the part
    text = IRModule({**others, name: function}).script()
    spoken = parse(text, FILE).functions[name]
    pairs = zip(_calls(spoken), _calls(function), strict=True)
    places = {a.span.line: str(b.span) for a, b in pairs if a.span is not None and b.span}
    sizes = tuple(sorted(plan.sizes.items()))
    place = f"{plan.name} at {function.span}" if function.span is not None else plan.name
    return ShardProgram(text, name, sizes, plan.pieces, tuple(places.items()), place)


def unused(name: str, taken: Container[str]) -> str:
    """A name that is not taken: this one, or one like it."""
    while name in taken:
        name += "_"
    return name


def _calls(function: Any) -> list[Call]:
    return [part for part in walk(function) if isinstance(part, Call)]


def task_of(shard: Shard) -> Task:
    """What a worker must know of a shard."""
    names = tuple([name for name, _ in shard.inputs])
    return Task(shard.index, shard.results, shard.piece, names, shard.bytes_in)


@attrs.frozen(eq=False)
class WorkerState:
    """A program on one worker."""

    module: IRModule
    planner: Planner
    parts: PartialResults
    compiled: dict[Any, Run] = attrs.Factory(dict)
    made: dict[Task, ShardFunction] = attrs.Factory(dict)

    def part(self, task: Task) -> ShardFunction:
        """The function that a task runs, made when it is first asked for."""
        if task not in self.made:
            self.made[task] = self._part(task)
        return self.made[task]

    def _part(self, task: Task) -> ShardFunction:
        planner = self.planner
        regions = planner.regions(task.blocks, task.piece)
        pairs = zip(planner.results, task.blocks, strict=True)
        wanted = {key: bounds for key, bounds in pairs if bounds is not None}
        reduction = planner.reduction
        cut = None
        if reduction is not None:
            cut = {reduction.step: {reduction.letter: reduction.range(*task.piece)}}
        return self.parts.part(regions, wanted, cut)

    def run(self, task: Task, values: Sequence[Value]) -> tuple[Value, ...]:
        """The blocks of the results that a task makes."""
        part = self.part(task)
        sent = dict(zip(task.names, values, strict=True))
        names: dict[Any, str] = {key: tensor.name for key, tensor in self.planner.inputs.items()}
        names |= {param: param.name for param in self.planner.plain}
        args = [sent[names[key]] for key, _ in part.inputs]
        made = self.executable(part)(part.sizes, *args)
        return made if isinstance(made, tuple) else (made,)

    def executable(self, part: ShardFunction) -> Run:
        """A part compiled; parts that do the same are one."""
        if part.key not in self.compiled:
            others = self.module.functions
            name = unused("shard", others)
            module = self.module.with_functions({**others, name: part.function})
            self.compiled[part.key] = compile_module(module)[name]
        return self.compiled[part.key]


@lru_cache(8)
def workplace(recipe: ShardProgram) -> WorkerState:
    """The program of a recipe, read once by each worker."""
    module = parse(recipe.text, FILE)
    function = module.functions[recipe.name]
    assert isinstance(function, Function)
    planner = planner_of(function, dict(recipe.sizes), recipe.name, recipe.pieces)
    rest = {name: f for name, f in module.functions.items() if name != recipe.name}
    return WorkerState(IRModule(rest), planner, PartialResults(planner.program))


def run_task(recipe: ShardProgram, task: Task, *values: Value) -> tuple[Value, ...]:
    """Run one shard on the blocks that were sent to it, and nothing else."""
    received = sum(v.nbytes for v in values if hasattr(v, "nbytes"))
    if received != task.bytes_in:
        raise StructIRError(f"shard {task.index} received {received} bytes, not {task.bytes_in}")
    try:
        return workplace(recipe).run(task, values)
    except Exception as error:
        places = dict(recipe.places)
        told = re.sub(
            re.escape(FILE) + r":(\d+)(:\d+)?",
            lambda found: places.get(int(found[1]), found[0]),
            getattr(error, "message", str(error)),
        )
        blocks = ", ".join([f"{a} to {b}" for a, b in [x for x in task.blocks if x is not None]])
        where = f"shard {task.index} of {recipe.whole}, which makes {blocks}"
        raise StructIRError(f"{where}: {told}") from None

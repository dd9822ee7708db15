"""Making a plan: output blocks walked backwards through the whole function."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any

import attrs

from structir.analysis.variables import symbols_in
from structir.distributed.constant_lifting import lifted
from structir.distributed.plan import Piece, Plan, PlanTensor, Shard
from structir.distributed.reductions import Reduction, reduction_of
from structir.errors import Diagnostic, StructInfoError, StructIRError
from structir.ir.bodies import bindings_of
from structir.ir.dims import Sym
from structir.ir.expr import Call, Expr, Function, Var
from structir.ir.module import IRModule
from structir.ir.struct_info import FuncStructInfo
from structir.passes.inline_functions import inline_functions
from structir.passes.lambda_lift import lambda_lift
from structir.projections.axis_kinds import PARALLEL, axis_kinds
from structir.projections.boxes import Bounds, Region, region
from structir.projections.cost import Sharing, neighbours
from structir.projections.program import CallOrigin, Program, info_of, leaves, program_of

Grid = tuple[int, ...]
Blocks = tuple[Bounds | None, ...]


def plan(
    program: IRModule | Function,
    *,
    grid: Sequence[int] | None = None,
    workers: int = 1,
    sizes: Mapping[str, int] | None = None,
    name: str = "main",
    reduce: int = 1,
    max_bytes: int | None = None,
) -> Plan:
    """A function cut into shards, each receiving only the blocks of its inputs that it needs.

    `grid` says into how many pieces each axis of the first result is cut; without it the cheapest
    grid of `workers` shards is chosen, by what the largest shard receives, makes and computes.
    `sizes` gives the symbolic sizes by name. `reduce` cuts the reduction that makes the result into
    as many parts, which are combined. `max_bytes` bounds what one shard receives and makes: there
    are then more shards than workers. Raises StructIRError where the function cannot be cut so.
    """
    function = program if isinstance(program, Function) else flat(program).functions.get(name)
    if not isinstance(function, Function):
        raise StructIRError(f"there is no function {name} in the program")
    planner = planner_of(function, dict(sizes or {}), name, reduce)
    return planner.cheapest(workers, max_bytes) if grid is None else planner.plan(tuple(grid))


def flat(module: IRModule) -> IRModule:
    """The module with calls of its functions and closures laid open, so that what they read is
    cut too."""
    return inline_functions(lambda_lift(module))


def planner_of(function: Function, sizes: dict[str, int], name: str, pieces: int = 1) -> Planner:
    """The planner of a function at these sizes; its large constants count as inputs."""
    unknown = sizes.keys() - {s.name for s in symbols_in(function)}
    if unknown:
        raise StructIRError(f"the function has no size {', '.join(sorted(unknown))}")
    _without_closures(function)
    lone, constants = lifted(function)
    named: dict[Sym | str, int] = {name: size for name, size in sizes.items()}
    program = program_of(lone, named, parts=True)
    return Planner(lone, constants, sizes, program, name, pieces)


def _without_closures(function: Function) -> None:
    """Refuse what reads tensors that no argument tells of."""
    for binding in bindings_of(function):
        call = binding.value
        if isinstance(call, Call):
            for part in (call.op, *call.args):
                if isinstance(part, Var) and isinstance(part.struct_info, FuncStructInfo):
                    text = (
                        f"`{part.name}` is a closure, and a function that hands one on is not cut"
                    )
                    hint = "a function of the module can be: it takes what it reads as arguments"
                    raise StructInfoError(Diagnostic(text, call.span, hint=hint))


@attrs.frozen(eq=False)
class Planner:
    """One function at concrete sizes, asked for shards."""

    function: Function
    constants: Mapping[str, Any]
    sizes: Mapping[str, int]
    program: Program
    name: str
    pieces: int

    @cached_property
    def inputs(self) -> dict[Hashable, PlanTensor]:
        """The tensors among the parameters, by key; a field of a tuple is named `x[0]`."""
        found: dict[Hashable, PlanTensor] = {}
        for tree in self.program.params:
            for key in leaves(tree):
                found[key] = self.tensor(key)
        return found

    @cached_property
    def results(self) -> dict[Hashable, PlanTensor]:
        """The tensors of the result, by key."""
        if not _only_tensors(self.program.result):
            raise StructIRError(f"{self.name} has more than tensors among its results")
        return {key: self.tensor(key) for key in leaves(self.program.result)}

    def tensor(self, key: Any) -> PlanTensor:
        """A value of the program, as a plan names it."""
        owner, way = key
        name = getattr(owner, "name", "constant") + "".join([f"[{k}]" for k in way])
        dtype = info_of(key).dtype
        if dtype is None:
            raise StructIRError(f"{name} has no known dtype, so its blocks cannot be planned")
        return PlanTensor(name, self.program.shapes[key], dtype)

    @cached_property
    def reduction(self) -> Reduction | None:
        """What is cut besides the grid."""
        if self.pieces == 1:
            return None
        if len(self.results) != 1:
            raise StructIRError("a reduction is cut where a function has one result")
        return reduction_of(self.program, next(iter(self.results)))

    @property
    def first(self) -> PlanTensor:
        """The result that the grid speaks of."""
        if not self.results:
            raise StructIRError(f"{self.name} has no tensor among its results: nothing to cut")
        return next(iter(self.results.values()))

    def check(self, grid: Grid) -> None:
        """A grid has a number of pieces for each axis, at most one for each position."""
        shape = self.first.shape
        if len(grid) != len(shape):
            raise StructIRError(
                f"a grid for {self.first.name} with shape {shape} has {len(shape)} numbers, "
                f"not {len(grid)}"
            )
        for axis, (pieces, size) in enumerate(zip(grid, shape, strict=True)):
            if not 1 <= pieces <= max(size, 1):
                raise StructIRError(
                    f"axis {axis} has {size} positions and cannot be cut into {pieces} pieces"
                )

    def plan(self, grid: Grid) -> Plan:
        """The plan of one grid."""
        self.check(grid)
        cells = itertools.product(*map(range, grid))
        asked = [(at, piece) for at in cells for piece in range(self.pieces)]
        return Plan(
            self.name,
            self.program,
            self.sizes,
            grid,
            tuple(self.inputs.values()),
            tuple(self.results.values()),
            tuple([self.shard(n, grid, at, piece) for n, (at, piece) in enumerate(asked)]),
            self.sharing(grid),
            self.kinds,
            self.constants,
            self.pieces,
            None if self.reduction is None else self.reduction.combine,
        )

    def blocks(self, grid: Grid, at: Sequence[int]) -> Blocks:
        """The block of each result that a cell makes.

        A result is cut along the axes at which it has the first result's size; along the others
        the first cell makes it."""
        shape = self.first.shape
        found: list[Bounds | None] = []
        for tensor in self.results.values():
            start, stop = [0] * len(tensor.shape), list(tensor.shape)
            makes = True
            for axis, (pieces, place) in enumerate(zip(grid, at, strict=True)):
                if axis < len(stop) and stop[axis] == shape[axis]:
                    size = shape[axis]
                    start[axis], stop[axis] = size * place // pieces, size * (place + 1) // pieces
                else:
                    makes = makes and place == 0
            found.append((tuple(start), tuple(stop)) if makes else None)
        return tuple(found)

    def regions(self, blocks: Blocks, piece: Piece) -> Mapping[Hashable, Region]:
        """What blocks of the results need of every value."""
        if self.reduction is not None and blocks[0] is not None:
            return self.reduction.required_regions(self.program, blocks[0], self.reduction.range(*piece))
        pairs = zip(self.results, blocks, strict=True)
        return self.program.required_regions({key: region(*b) for key, b in pairs if b is not None})

    def shard(self, number: int, grid: Grid, at: tuple[int, ...], piece: int = 0) -> Shard:
        """One cell of a grid."""
        blocks, part = self.blocks(grid, at), (piece, self.pieces)
        regions = self.regions(blocks, part)
        inputs: list[tuple[str, Bounds | None]] = [(v.name, None) for v in self.plain]
        for key, tensor in self.inputs.items():
            if regions.get(key):
                inputs.append((tensor.name, regions[key].bounds))
        known = {t.name: t for t in self.inputs.values()}
        received = sum(known[name].bytes_of(block) for name, block in inputs if block is not None)
        pairs = zip(self.results.values(), blocks, strict=True)
        made = sum(tensor.bytes_of(block) for tensor, block in pairs)
        between = sum(r.volume for r in regions.values()) * 4
        return Shard(number, at, part, blocks, tuple(inputs), received, made, between, regions)

    @cached_property
    def plain(self) -> tuple[Var, ...]:
        """The parameters that are no tensors: every shard gets them."""
        params = zip(self.function.params, self.program.params, strict=True)
        return tuple([param for param, tree in params if tree is None])

    def sharing(self, grid: Grid) -> dict[int, Mapping[str, Sharing]]:
        """What the first two shards along each axis that is cut share of every input."""
        shape = self.first.shape
        tile = [max(n // g, 1) for n, g in zip(shape, grid, strict=True)]
        key = next(iter(self.results))

        def walk(block: Region) -> dict[str, Region]:
            found = self.program.required_regions({key: block})
            return {t.name: found.get(k, Region()) for k, t in self.inputs.items()}

        origin = (0,) * len(shape)
        cut = [axis for axis, pieces in enumerate(grid) if pieces > 1]
        return {axis: neighbours(walk, origin, tile, axis) for axis in cut}

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """What may be done to the axes of the first result."""
        key = next(iter(self.results))
        for step in self.program.steps:
            origin = step.origin
            if key in step.outputs and isinstance(origin, CallOrigin) and origin.spec is not None:
                return axis_kinds(origin.spec, step.outputs.index(key))
        return (PARALLEL,) * len(self.first.shape)

    def cheapest(self, workers: int, max_bytes: int | None) -> Plan:
        """The plan of the least cost for its largest shard, with as many shards as workers or, if a
        shard would hold too much, a multiple of that."""
        if workers < 1:
            raise StructIRError(f"a plan is for one worker or more, not for {workers}")
        most = prod(self.first.shape)
        count = workers
        while True:
            grids = list(_grids(count, self.first.shape))
            costs = {grid: self.cost(grid) for grid in grids}
            fits = [g for g in grids if max_bytes is None or costs[g][1] <= max_bytes]
            if fits:
                return self.plan(min(fits, key=lambda grid: costs[grid]))
            if count >= most and count > workers:
                least = min([c[1] for c in costs.values()], default=0)
                raise StructIRError(
                    f"no grid of {self.name} keeps a shard within {max_bytes} bytes; "
                    f"the smallest holds {least}"
                )
            count = count * 2 if grids or max_bytes else max(count - 1, 1)
            if not grids and max_bytes is None and count == 1:
                return self.plan((1,) * len(self.first.shape))

    def cost(self, grid: Grid) -> tuple[int, int, int]:
        """Of the largest shard: bytes and computed elements together, the bytes that it holds; and
        the bytes that all would receive. The corners and the middle stand for all."""
        places = {
            tuple([0] * len(grid)),
            tuple([g - 1 for g in grid]),
            tuple([g // 2 for g in grid]),
        }
        found = [self.shard(0, grid, at) for at in places]
        held = max(s.bytes_in + s.bytes_out for s in found)
        return (
            max(s.bytes_in + s.bytes_out + s.bytes_between for s in found),
            held,
            sum(s.bytes_in for s in found),
        )


def _grids(count: int, shape: Sequence[int]) -> Iterator[Grid]:
    """Every way to cut a shape into this many pieces."""
    if not shape:
        if count == 1:
            yield ()
        return
    for pieces in range(1, min(count, max(shape[0], 1)) + 1):
        if count % pieces == 0:
            for rest in _grids(count // pieces, shape[1:]):
                yield (pieces, *rest)


def _only_tensors(tree: Any) -> bool:
    """Whether a result, or all that its tuples hold, is made in blocks: no shape and no number."""
    if isinstance(tree, tuple) and (not tree or not isinstance(tree[0], Expr)):
        return all(map(_only_tensors, tree))
    return tree is not None

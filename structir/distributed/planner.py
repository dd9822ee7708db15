"""The planner of shards: propagates required regions backward from the result blocks."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from math import prod
from typing import Any

import attrs

from structir.analysis.variables import free_vars, symbols_in
from structir.distributed.cluster_model import ClusterModel
from structir.distributed.constant_lifting import lift_constants
from structir.distributed.known_values import known_values
from structir.distributed.plan import Piece, Plan, PlanTensor, Shard
from structir.distributed.plan_options import check_count
from structir.distributed.ragged_boundary import row_arrays
from structir.distributed.reductions import Reduction, find_reduction
from structir.distributed.row_cuts import Cuts, row_cuts
from structir.errors import Diagnostic, DiagnosticError, StructInfoError, StructIRError
from structir.ir.bodies import bindings_of
from structir.ir.expr import Call, Function, Var
from structir.ir.module import IRModule
from structir.ir.struct_info import FuncStructInfo, TensorStructInfo
from structir.projections.axis_kinds import PARALLEL, axis_kinds
from structir.projections.boxes import Bounds, Region, region
from structir.projections.cost import Sharing, neighbours
from structir.projections.execution_cost import StepCost
from structir.projections.program import CallOrigin, Program, info_of, leaves, program_of
from structir.system.locks import cached_property

Grid = tuple[int, ...]
Blocks = tuple[Bounds | None, ...]


def make_planner(
    function: Function,
    sizes: dict[str, Any],
    name: str,
    pieces: int = 1,
    module: IRModule | None = None,
) -> Planner:
    """Returns the planner of a function at these sizes, which include the row lengths of ragged
    parameters; large constants count as inputs.

    `module` has the kernels that the function calls; without it, each shard runs them completely.
    """
    symbols = symbols_in(function)
    numbers = {key: size for key, size in sizes.items() if isinstance(size, int)}
    unknown = numbers.keys() - {s.name for s in symbols}
    if unknown:
        raise _unknown_dim(sorted(unknown)[0], sorted({s.name for s in symbols}))
    _check_no_closures(function)
    closed, constants = lift_constants(function)
    by_symbol = {s: numbers[s.name] for s in symbols if s.name in numbers}
    arrays = row_arrays(closed, sizes)
    if arrays:
        arrays, by_symbol = known_values(closed, arrays, by_symbol)
        sizes = {**sizes, **{s.name: size for s, size in by_symbol.items()}}
    program = program_of(closed, by_symbol, module=module, parts=True, arrays=arrays)  # type: ignore[arg-type]
    return Planner(closed, constants, sizes, program, name, pieces)


def _unknown_dim(name: str, available: Sequence[str]) -> DiagnosticError:
    """Returns the error of a size for a dim that the function does not have."""
    near = get_close_matches(name, available, 1) or available[:1]
    hint = f'`sizes={{"{near[0]}": 128}}`' if near else "omit the size"
    listed = ", ".join(available) or "none"
    message = f"no symbolic dim `{name}` in the function; available: {listed}"
    return DiagnosticError(Diagnostic(message, hint=hint, code="E0909"))


def _check_no_closures(function: Function) -> None:
    """Raises StructInfoError for unknown closures as arguments, which may capture tensors."""
    known = set[Any]()
    for binding in bindings_of(function):
        call = binding.value
        if isinstance(call, Function):
            known.add(binding.var)
        if isinstance(call, Call):
            for part in (call.op, *call.args):
                is_function = isinstance(part.struct_info, FuncStructInfo)
                if isinstance(part, Var) and is_function and part not in known:
                    text = f"cannot shard a call with the closure `{part.name}`"
                    hint = "pass a function of the module, with its captured values as arguments"
                    raise StructInfoError(Diagnostic(text, call.span, hint=hint))


@attrs.frozen(eq=False)
class Planner:
    """The planner of the shards of one function at concrete sizes."""

    function: Function
    constants: Mapping[str, Any]
    sizes: Mapping[str, Any]
    program: Program
    name: str
    pieces: int
    cuts_by_parts: dict[int, Cuts] = attrs.Factory(dict)

    @cached_property
    def inputs(self) -> dict[Hashable, PlanTensor]:
        """The tensors among the parameters, by key; a field of a tuple is named `x[0]`."""
        keys = [key for tree in self.program.params for key in leaves(tree)]
        return {key: self.tensor(key) for key in keys}

    @cached_property
    def results(self) -> dict[Hashable, PlanTensor]:
        """The tensors of the result, by key."""
        return {key: self.tensor(key) for key in leaves(self.program.result)}

    def tensor(self, key: Any) -> PlanTensor:
        """Returns the plan tensor of a value of the program."""
        owner, path = key
        name = getattr(owner, "name", "constant") + "".join([f"[{k}]" for k in path])
        dtype = info_of(key).dtype
        if dtype is None:
            raise self._unknown_dtype(owner, name, self.program.shapes[key])
        return PlanTensor(name, self.program.shapes[key], dtype)

    @cached_property
    def reduction(self) -> Reduction | None:
        """The reduction that is split in addition to the grid, if any."""
        if self.pieces == 1:
            return None
        if len(self.results) != 1:
            raise StructIRError(
                f"reduce={self.pieces}: expected one result, {self.name} has {len(self.results)}",
                code="E0905",
            )
        return find_reduction(self.program, next(iter(self.results)))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that the grid splits: that of the first result."""
        return next((tensor.shape for tensor in self.results.values()), ())

    def check(self, grid: Grid) -> None:
        """Raises StructIRError unless the grid has a valid number of shards for each axis, and the
        dtypes of all parameters are known."""
        shape = self.shape
        if grid and not self.results:
            self._require_dtypes()
        if len(grid) != len(shape):
            count = len(grid)
            text = f"grid has {count} entries but the result of {self.name} has rank {len(shape)}"
            raise self._wrong_grid(text, grid)
        for axis, (parts, size) in enumerate(zip(grid, shape, strict=True)):
            if not 1 <= parts <= max(size, 1):
                text = f"cannot split axis {axis} (size {size}) into {parts} shards"
                raise self._wrong_grid(text, grid)

    def _require_dtypes(self) -> None:
        """Raises DiagnosticError for a parameter of unknown dtype, which makes those of the results
        unknown."""
        for param in self.function.params:
            info = param.struct_info
            if isinstance(info, TensorStructInfo) and info.dtype is None:
                raise self._unknown_dtype(param, param.name, info.dims)

    def _unknown_dtype(self, owner: Var, name: str, shape: Any) -> DiagnosticError:
        """Returns the error of a tensor of unknown dtype, whose size in bytes is unknown."""
        known = f'R.Tensor({shape}, "float32")'
        is_param = any([param is owner for param in self.function.params])
        bound = f"{name}: {known}" if is_param else f"R.match_cast(..., {known})"
        return DiagnosticError(
            Diagnostic(
                f"cannot shard `{name}`",
                owner.span,
                label=f"expected a tensor of known dtype, found {owner.struct_info}",
                hint=f"state its dtype: `{bound}`",
                code="E0904",
            )
        )

    def _wrong_grid(self, text: str, grid: Grid) -> DiagnosticError:
        """Returns the error of a grid, with the nearest one as its hint."""
        pairs = itertools.zip_longest(grid[: len(self.shape)], self.shape, fillvalue=1)
        nearest = tuple([min(max(parts, 1), max(size, 1)) for parts, size in pairs])
        hint = f"`grid={nearest}`"
        return DiagnosticError(Diagnostic(text, self.function.span, hint=hint, code="E0903"))

    def plan(self, grid: Grid) -> Plan:
        """Returns the plan of a grid."""
        self.check(grid)
        cells = itertools.product(*map(range, grid))
        tasks = [(at, piece) for at in cells for piece in range(self.pieces)]
        return Plan(
            self.name,
            self.program,
            self.sizes,
            grid,
            tuple(self.inputs.values()),
            tuple(self.results.values()),
            tuple([self.shard(n, grid, at, piece) for n, (at, piece) in enumerate(tasks)]),
            self.sharing(grid),
            self.kinds,
            self.constants,
            self.pieces,
            None if self.reduction is None else self.reduction.combine,
        )

    def blocks(self, grid: Grid, at: Sequence[int]) -> Blocks:
        """Returns the block of each result that a grid cell computes.

        A result is split along the axes where its size equals that of the first result, and along
        rows of ragged tensors where the first one has the same rows. Along the other axes, the
        first cell computes it."""
        shape = self.shape
        blocks: list[Bounds | None] = []
        cuts = self.row_cuts(grid[0]) if grid else {}
        for key, tensor in self.results.items():
            start, stop = [0] * len(tensor.shape), list(tensor.shape)
            computes = True
            for axis, (parts, index) in enumerate(zip(grid, at, strict=True)):
                at_rows = cuts.get(self.dim(key, axis)) if axis == 0 else None
                if at_rows is not None:
                    start[axis], stop[axis] = at_rows[index], at_rows[index + 1]
                elif axis < len(stop) and stop[axis] == shape[axis]:
                    size = shape[axis]
                    start[axis], stop[axis] = size * index // parts, size * (index + 1) // parts
                else:
                    computes = computes and index == 0
            blocks.append((tuple(start), tuple(stop)) if computes else None)
        return tuple(blocks)

    def dim(self, key: Any, axis: int) -> Any:
        """Returns the dim of an axis of a tensor; None without this axis."""
        sizes = info_of(key).dims
        return sizes[axis] if isinstance(sizes, tuple) and axis < len(sizes) else None

    def row_cuts(self, parts: int) -> Cuts:
        """Returns the positions between rows of ragged tensors, along which results are split."""
        if parts not in self.cuts_by_parts:
            first = next(iter(self.results))
            self.cuts_by_parts[parts] = row_cuts(self.program, self.dim(first, 0), parts)
        return self.cuts_by_parts[parts]

    def regions(self, blocks: Blocks, piece: Piece) -> Mapping[Hashable, Region]:
        """Returns the region of every value that blocks of the results require."""
        if self.reduction is not None and blocks[0] is not None:
            return self.reduction.required_regions(
                self.program, blocks[0], self.reduction.range(*piece)
            )
        pairs = zip(self.results, blocks, strict=True)
        return self.program.required_regions({key: region(*b) for key, b in pairs if b is not None})

    def shard(self, index: int, grid: Grid, at: tuple[int, ...], piece: int = 0) -> Shard:
        """Returns the shard of one grid cell."""
        blocks, part_of_reduction = self.blocks(grid, at), (piece, self.pieces)
        regions = self.regions(blocks, part_of_reduction)
        inputs: list[tuple[str, Bounds | None]] = [(v.name, None) for v in self.plain]
        for key, tensor in self.inputs.items():
            if regions.get(key):
                inputs.append((tensor.name, regions[key].bounds))
        tensors = {t.name: t for t in self.inputs.values()}
        received = sum(tensors[name].bytes_of(block) for name, block in inputs if block is not None)
        pairs = zip(self.results.values(), blocks, strict=True)
        returned = sum(tensor.bytes_of(block) for tensor, block in pairs)
        intermediate = sum(r.volume for r in regions.values()) * 4
        return Shard(
            index,
            at,
            part_of_reduction,
            blocks,
            tuple(inputs),
            received,
            returned,
            intermediate,
            regions,
        )

    @cached_property
    def plain(self) -> tuple[Var, ...]:
        """The parameters that are not tensors and that bindings use; every shard receives them."""
        used = set(free_vars(self.function.body))
        params = zip(self.function.params, self.program.params, strict=True)
        return tuple([param for param, tree in params if tree is None and param in used])

    def sharing(self, grid: Grid) -> dict[int, Mapping[str, Sharing]]:
        """Returns what the first two shards along each split axis share of every input."""
        shape = self.shape
        tile = [max(n // g, 1) for n, g in zip(shape, grid, strict=True)]
        key = next(iter(self.results), None)

        def required(block: Region) -> dict[str, Region]:
            regions = self.program.required_regions({key: block})
            return {t.name: regions.get(k, Region()) for k, t in self.inputs.items()}

        origin = (0,) * len(shape)
        split = [axis for axis, parts in enumerate(grid) if parts > 1]
        return {axis: neighbours(required, origin, tile, axis) for axis in split}

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The kind of each axis of the first result: parallel, scan or whole."""
        key = next(iter(self.results), None)
        for step in self.program.steps:
            origin = step.origin
            outputs = {output: index for index, output in enumerate(step.outputs)}
            if key in outputs and isinstance(origin, CallOrigin) and origin.spec is not None:
                return axis_kinds(origin.spec, outputs[key])
        return (PARALLEL,) * len(self.shape)

    def cheapest(self, workers: int, max_bytes: int | None, model: ClusterModel) -> Plan:
        """Returns the plan whose slowest shard takes the least time.

        It has as many shards as workers, or a multiple where a shard would exceed `max_bytes`."""
        check_count("workers", workers)
        max_count = prod(self.shape)
        count, min_bytes = workers, 0
        while True:
            grids = list(_grids(count, self.shape))
            costs = {grid: self.cost(grid, model) for grid in grids}
            min_bytes = min([c[1] for c in costs.values()], default=min_bytes)
            fits = [g for g in grids if max_bytes is None or costs[g][1] <= max_bytes]
            if fits:
                return self.plan(min(fits, key=lambda grid: costs[grid]))
            if count >= max_count and count > workers:
                raise StructIRError(
                    f"no grid of {self.name} keeps every shard within {max_bytes} bytes; "
                    f"the finest grid needs {min_bytes}",
                    code="E0906",
                )
            count = count * 2 if grids or max_bytes else max(count - 1, 1)
            if not grids and max_bytes is None and count == 1:
                return self.plan((1,) * len(self.shape))

    def cost(self, grid: Grid, model: ClusterModel) -> tuple[float, int, int]:
        """Returns the seconds of the slowest shard, the held bytes of the largest one, and the
        total bytes received.

        Estimated from the corner cells and the middle cell of the grid."""
        cells = {
            tuple([0] * len(grid)),
            tuple([g - 1 for g in grid]),
            tuple([g // 2 for g in grid]),
        }
        shards = [self.shard(0, grid, at) for at in cells]
        return (
            max(self._seconds(s, model) for s in shards),
            max(s.bytes_in + s.bytes_out for s in shards),
            sum(s.bytes_in for s in shards),
        )

    def _seconds(self, shard: Shard, model: ClusterModel) -> float:
        """Returns the time of a shard: values that it computes count as bytes, too."""
        moved = shard.bytes_in + shard.bytes_out + shard.bytes_between
        operations = sum(cost.over(shard.regions) for cost in self._step_costs)
        return moved / model.bandwidth + model.compute_time(operations)

    @cached_property
    def _step_costs(self) -> tuple[StepCost, ...]:
        """The costs of the steps of the program, for any regions."""
        return tuple([StepCost(self.program, step) for step in self.program.steps])


def _grids(count: int, shape: Sequence[int]) -> Iterator[Grid]:
    """Yields the grids of a shape with this many cells."""
    if not shape:
        if count == 1:
            yield ()
        return
    for parts in range(1, min(count, max(shape[0], 1)) + 1):
        if count % parts == 0:
            for remaining in _grids(count // parts, shape[1:]):
                yield (parts, *remaining)

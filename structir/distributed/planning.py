"""Plans the shards of a function: prepares it, and chooses a grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import attrs

from structir.analysis.kernel_dtypes import with_kernels_at_dtypes
from structir.analysis.variables import symbols_in
from structir.batching.combinators import expanded
from structir.distributed.cluster_model import ClusterModel
from structir.distributed.distinct_names import with_distinct_names
from structir.distributed.dtype_instances import at_dtypes, check_dtypes
from structir.distributed.host_values import HostValues, with_host_values
from structir.distributed.late_values import LateValues, with_late_values
from structir.distributed.open_branches import bound_by_arguments
from structir.distributed.plan import Plan
from structir.distributed.plan_options import check_count, checked_grid, checked_sizes
from structir.distributed.planner import Grid, Planner, make_planner
from structir.distributed.ragged_boundary import (
    RaggedBoundary,
    with_parts,
    with_row_lengths,
)
from structir.distributed.separate_entry import with_separate_entry
from structir.errors import StructIRError
from structir.ir.dims import Sym
from structir.ir.expr import Function, Var
from structir.ir.module import IRModule
from structir.passes.lambda_lift import lambda_lift
from structir.rewriting.call_inlining import inline_calls
from structir.runtime.function_forms import OfForm


def plan(
    program: IRModule | Function,
    *,
    grid: Sequence[int] | None = None,
    workers: int = 1,
    sizes: Mapping[str, Any] | None = None,
    name: str = "main",
    reduce: int = 1,
    max_bytes: int | None = None,
    model: ClusterModel | None = None,
    dtypes: Mapping[str, str] | None = None,
) -> Plan:
    """Returns a plan that splits a function into shards, each with the input blocks it needs.

    `grid` gives the number of shards along each axis of the first result. Without it, the grid of
    `workers` shards is chosen whose slowest shard takes the least time, by `model`: the bytes that
    it receives, returns and computes, and the execution costs of its calls. `sizes` gives the
    symbolic dims by name, and the row lengths of ragged parameters: `{"x": [3, 1, 2]}`. `reduce`
    splits the reduction that computes the result into as many partial reductions, which are
    combined. `max_bytes` bounds the bytes that one shard receives and returns; the plan may then
    have more shards than workers. `dtypes` gives the dtype variables by name. Raises StructIRError
    where no such plan exists.
    """
    sizes = checked_sizes(sizes)
    check_count("reduce", reduce)
    module = program if isinstance(program, IRModule) else IRModule({name: program})
    return plan_of_prepared(
        prepared_at(at_dtypes(module, name, dtypes or {}), name, sizes),
        sizes=sizes,
        grid=grid,
        workers=workers,
        reduce=reduce,
        max_bytes=max_bytes,
        model=model,
    )


def plan_of_prepared(
    prepared: ShardableFunction,
    *,
    sizes: Mapping[str, Any],
    grid: Sequence[int] | None,
    workers: int,
    reduce: int,
    max_bytes: int | None,
    model: ClusterModel | None,
) -> Plan:
    """Returns a plan of a function that is ready for it; options as in `plan`."""
    planner = prepared.planner(sizes, reduce)
    if grid is None:
        return planner.cheapest(workers, max_bytes, model or ClusterModel())
    return planner.plan(prepared.grid_of_parts(checked_grid(grid)))


@attrs.frozen(eq=False)
class ShardableFunction:
    """A function of a module whose calls are inlined, whose ragged tensors are their parts, and
    which computes tensors only; `boundary` describes the ragged ones, `host` the other values."""

    module: IRModule  # with the function before these changes, which may call itself
    name: str
    function: Function
    boundary: RaggedBoundary | None = None
    host: HostValues | None = None
    replaced_dims: frozenset[str] = frozenset()  # of casts, by known sizes
    late: LateValues | None = None

    @property
    def params(self) -> tuple[Var, ...]:
        """The parameters of a call; the function may have more."""
        return self.params_with_late if self.late is None else self.late.params

    @property
    def params_with_late(self) -> tuple[Var, ...]:
        """The parameters of a call, with those for values whose sizes only a run determines."""
        return self.function.params if self.host is None else self.host.params

    def planner(self, sizes: Mapping[str, Any], pieces: int = 1) -> Planner:
        """Returns the planner at sizes, which have the row lengths of ragged parameters."""
        sizes = {name: size for name, size in sizes.items() if name not in self.replaced_dims}
        complete = with_row_lengths(self.function, self.boundary, sizes)
        return make_planner(self.function, complete, self.name, pieces, self.module)

    def grid_of_parts(self, grid: Grid) -> Grid:
        """Returns the grid of the values of a ragged result: its rows are cut, not their length."""
        position = None if self.boundary is None else self.boundary.ragged_axis
        if position is None or len(grid) <= position:
            return grid
        parts = prod(grid[:position]) * grid[position]
        return (parts, *grid[position + 1 :])


def prepared(module: IRModule, name: str) -> ShardableFunction:
    """Inlines the calls of functions and closures, so that their operands are sharded too, replaces
    ragged tensors by their parts, names the dims and parameters of a function apart, and separates
    the values that are no tensors.

    Raises StructIRError if there is no such function, or if it has dtype variables.
    """
    function = module.functions.get(name)
    if not isinstance(function, Function):
        raise StructIRError(f"no function `{name}` in the program", code="E0909")
    check_dtypes(function, name)
    names = {symbol.name for symbol in symbols_in(function)}
    module = with_inlined_calls(module, name)
    dense, boundary = with_parts(module, name)
    if dense is not module:  # sizes and dtypes of parts may be known only now
        module = with_inlined_calls(dense, name)
    original: Any = module.functions[name]
    named, late = with_late_values(module, with_distinct_names(original))
    sharded, host = with_host_values(module, named)
    replaced = names.difference([symbol.name for symbol in symbols_in(sharded)])
    return ShardableFunction(module, name, sharded, boundary, host, frozenset(replaced), late)


def prepared_at(module: IRModule, name: str, sizes: Mapping[str, Any]) -> ShardableFunction:
    """Prepares a function at sizes by name: where inference finds the sizes of a value only with
    numbers, the function has these in place of its dims. Raises as `prepared` does."""
    module = with_separate_entry(module, name)
    ready = prepared(module, name)
    function: Any = module.functions[name]
    if ready.late is None:
        return ready
    dims = [s for s in bound_by_arguments(function.params) if type(s) is Sym]
    numbers = {s: sizes[s.name] for s in dims if isinstance(sizes.get(s.name), int)}
    if not numbers:
        return ready
    at_numbers = prepared(with_form(module, name, function, numbers), name)
    replaced = at_numbers.replaced_dims.union([s.name for s in numbers])
    return attrs.evolve(at_numbers, replaced_dims=replaced)


def with_form(
    module: IRModule, name: str, function: Function, form: Mapping[Any, int | str]
) -> IRModule:
    """Returns a module with a function at known variables, and with inlined calls."""
    instance = OfForm(form).instance(function)
    return with_inlined_calls(module.with_functions({**module.functions, name: instance}), name)


def with_inlined_calls(module: IRModule, name: str) -> IRModule:
    """Inlines the calls of functions and closures, and infers the StructInfos of one again."""
    # Closures of called functions are lifted where the calls are: there their sizes are known.
    known = expanded(with_kernels_at_dtypes(module))
    inlined = inline_calls(lambda_lift(inline_calls(known)))
    function: Any = inlined.functions[name]  # ranks of its callees are known now
    return inlined.with_functions({**inlined.functions, name: OfForm({}).instance(function)})

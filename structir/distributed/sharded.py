"""Sharded functions: called like the function, run shard by shard, here or on Dask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs

from structir.analysis.variables import walk
from structir.distributed.assembly import cells, combined, empty, fill, packed, slices
from structir.distributed.constant_lifting import lifted
from structir.distributed.plan import Plan
from structir.distributed.planning import flat
from structir.distributed.planning import plan as make_plan
from structir.distributed.worker import (
    ShardProgram,
    WorkerState,
    recipe_of,
    run_task,
    task_of,
    workplace,
)
from structir.errors import StructIRError
from structir.interpret.scope import check_call
from structir.ir.dims import Dim, as_sym
from structir.ir.expr import Function, GlobalVar
from structir.ir.module import IRModule
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.lazy import lazy_module
from structir.projections.boxes import Bounds

np = lazy_module("numpy")
dask_room = lazy_module("structir.distributed.dask_executor")

Value = Any


def shard(
    module: IRModule,
    name: str = "main",
    *,
    grid: Sequence[int] | None = None,
    workers: int = 1,
    reduce: int = 1,
    max_bytes: int | None = None,
) -> Sharded:
    """A function of a module, to be called on arrays and run in shards; options as in `plan`."""
    function = module.functions.get(name)
    if not isinstance(function, Function):
        raise StructIRError(f"there is no function {name} in the program")
    options = {"grid": grid, "workers": workers, "reduce": reduce, "max_bytes": max_bytes}
    return Sharded(flat(module), name, options)


@attrs.frozen(eq=False)
class Sharded:
    """A function that runs in shards. Plans are kept, one for each choice of sizes."""

    module: IRModule
    name: str
    options: Mapping[str, Any]
    plans: dict[tuple[tuple[str, int], ...], Plan] = attrs.Factory(dict)
    recipes: dict[Plan, ShardProgram] = attrs.Factory(dict)

    @property
    def function(self) -> Function:
        """The function as it was written."""
        found = self.module.functions[self.name]
        assert isinstance(found, Function)
        return found

    def plan(self, *args: Value) -> Plan:
        """The plan at the shapes of these arguments (NumPy arrays, Dask arrays, or anything with a
        shape and a dtype)."""
        sizes = sizes_of(self.function, args)
        key = tuple(sorted(sizes.items()))
        if key not in self.plans:
            self.plans[key] = make_plan(self.module, sizes=sizes, name=self.name, **self.options)
        return self.plans[key]

    @cached_property
    def lone(self) -> Function:
        """The function with its large constants as parameters."""
        return lifted(self.function)[0]

    def recipe(self, plan: Plan) -> ShardProgram:
        """What a worker needs to make the parts of a plan."""
        if plan not in self.recipes:
            others = _used_by(self.function, self.module)
            self.recipes[plan] = recipe_of(plan, self.lone, others)
        return self.recipes[plan]

    def workplace(self, plan: Plan) -> WorkerState:
        """The program of a plan as this process runs it."""
        return workplace(self.recipe(plan))

    def __call__(self, *args: Value, **names: Value) -> Value:
        """The result at NumPy arguments, shard after shard in this process."""
        check_call(self.name, self.function.params, args, names)
        plan = self.plan(*args)
        recipe = self.recipe(plan)
        sent = self.values(plan, args)
        made = [
            run_task(recipe, task_of(each), *[_sent(sent[n], b) for n, b in each.inputs])
            for each in plan.shards
        ]
        results = empty(plan)
        for number, blocks in enumerate(cells(plan, made, combined)):
            fill(plan, number, blocks, results)
        return packed(plan, iter(results))

    def values(self, plan: Plan, args: Sequence[Value]) -> dict[str, Value]:
        """What may be sent, as plans name it: fields of tuples apart, and the constants."""
        found: dict[str, Value] = dict(plan.constants)
        for param, value in zip(self.function.params, args, strict=True):
            found.update(_named(param.name, param.struct_info, value))
        return found

    def on_dask(self, *args: Value, **names: Value) -> Value:
        """The result as Dask arrays, one block a shard: nothing has run yet. What is given may be
        Dask arrays too, so that functions follow each other without their results being gathered.
        Needs the extra `structir[distributed]`."""
        check_call(self.name, self.function.params, args, names)
        return dask_room.arrays(self, args)

    def compute(self, *args: Value, client: Any = None, progress: bool = False) -> Value:
        """The result as NumPy arrays, its shards run by Dask: by a client's cluster, or else by
        threads of this process."""
        return dask_room.computed(self, args, client, progress)


def _used_by(function: Function, module: IRModule) -> dict[str, Any]:
    """What a function calls of its module, directly or not."""
    found: dict[str, Any] = {}
    todo: list[Any] = [function]
    while todo:
        names = {part.name for part in walk(todo.pop()) if isinstance(part, GlobalVar)}
        new = {name: module.functions[name] for name in sorted(names - found.keys())}
        found |= new
        todo += new.values()
    return found


def _sent(value: Value, bounds: Bounds | None) -> Value:
    return value if bounds is None else np.asarray(value[slices(bounds)], order="C")


def _named(name: str, info: StructInfo, value: Value) -> Iterator[tuple[str, Value]]:
    if not isinstance(info, TupleStructInfo):
        yield name, value
        return
    for k, (field, each) in enumerate(zip(info.fields, value, strict=True)):
        yield from _named(f"{name}[{k}]", field, each)


def sizes_of(function: Function, args: Sequence[Value]) -> dict[str, int]:
    """The symbolic sizes that these arguments give; raises StructIRError where they do not fit."""
    check_call("the function", function.params, args)
    sizes: dict[str, int] = {}
    for param, value in zip(function.params, args, strict=True):
        _match(param.name, param.struct_info, value, sizes)
    return sizes


def _match(name: str, info: StructInfo, value: Value, sizes: dict[str, int]) -> None:
    if isinstance(info, TupleStructInfo):
        for k, (field, each) in enumerate(zip(info.fields, value, strict=True)):
            _match(f"{name}[{k}]", field, each, sizes)
    if not isinstance(info, TensorStructInfo):
        return
    shape, dims = tuple(value.shape), info.dims
    if info.dtype is not None and np.dtype(value.dtype).name != info.dtype:
        raise StructIRError(f"{name} has dtype {value.dtype}, not {info.dtype}")
    if not isinstance(dims, tuple) or len(shape) != len(dims):
        raise StructIRError(f"{name} has shape {shape}, and is {info}")
    for axis, (dim, size) in enumerate(zip(dims, shape, strict=True)):
        _match_size(f"axis {axis} of {name}", dim, int(size), sizes)


def _match_size(what: str, dim: Dim, size: int, sizes: dict[str, int]) -> None:
    symbol = as_sym(dim)
    expected = sizes.setdefault(symbol.name, size) if symbol is not None else dim
    if isinstance(expected, int) and expected != size:
        raise StructIRError(f"{what} has {size} positions, not {expected}")

"""Sharded functions: callable like the original, executed shard by shard, locally or on Dask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import attrs

from structir.analysis.arguments import arguments_of, check_call, default_values
from structir.analysis.variables import walk
from structir.distributed.assembly import (
    allocate_results,
    combine_partials,
    pack_results,
    reduce_cells,
    slices,
    store_blocks,
)
from structir.distributed.cluster_model import ClusterModel
from structir.distributed.constant_lifting import lift_constants
from structir.distributed.dtype_instances import at_dtypes
from structir.distributed.element_sizes import sizes_of_elements
from structir.distributed.open_branches import (
    bound_by_arguments,
    condition_of,
    in_plain_blocks,
    open_branch,
    with_branch,
)
from structir.distributed.plan import Plan
from structir.distributed.planning import (
    ShardableFunction,
    plan_of_prepared,
    prepared,
    with_form,
    with_inlined_calls,
)
from structir.distributed.ragged_boundary import rows_of_arguments
from structir.distributed.separate_entry import with_separate_entry
from structir.distributed.undetermined_ranks import undetermined_ranks
from structir.distributed.worker import (
    ShardProgram,
    WorkerState,
    make_shard_program,
    make_task,
    run_task,
    worker_state,
)
from structir.interpret.argument_checks import match
from structir.interpret.argument_conversion import argument_value
from structir.interpret.scope import Activation, ForeignTensor
from structir.ir.dims import Sym
from structir.ir.expr import Function, GlobalVar, Var
from structir.ir.module import IRModule
from structir.ir.ragged_array import RaggedArray
from structir.ir.struct_info import StructInfo, TupleStructInfo
from structir.lazy import lazy_module
from structir.projections.boxes import Bounds
from structir.projections.program import Program
from structir.runtime.function_forms import form_variables, known, with_form_variables
from structir.system.locks import cached_property

np = lazy_module("numpy")
dask_executor = lazy_module("structir.distributed.dask_executor")

Value = Any


def shard(
    module: IRModule,
    name: str = "main",
    *,
    grid: Sequence[int] | None = None,
    workers: int = 1,
    reduce: int = 1,
    max_bytes: int | None = None,
    model: ClusterModel | None = None,
    dtypes: Mapping[str, str] | None = None,
) -> Sharded | GenericSharded | BranchedSharded:
    """Returns a function of a module that runs in shards when called; options as in `plan`.

    Ragged tensors are cut by rows, into shards with about equal numbers of elements. The arguments
    of a call determine ranks that the parameters do not, the dtypes that neither they nor `dtypes`
    do, and the conditionals whose branches have results of different shapes: these are computed
    before the plan.
    """
    options: dict[str, Any] = {"grid": grid, "workers": workers, "reduce": reduce}
    options |= {"max_bytes": max_bytes, "model": model}
    module = at_dtypes(with_separate_entry(module, name), name, dtypes or {})
    function = module.functions.get(name)
    if isinstance(function, Function):
        named = with_form_variables(function)
        if form_variables(named):
            return GenericSharded(module, name, named, form_variables(named), options)
        module = with_form(module, name, named, {}) if named is not function else module
    return _of_known_form(module, name, options)


def _of_known_form(
    module: IRModule, name: str, options: Mapping[str, Any]
) -> Sharded | GenericSharded | BranchedSharded:
    """Returns the sharded function, or one that first decides its conditionals, or takes the sizes
    of its arguments where deduction needs numbers."""
    whole = prepared(module, name)
    function: Any = module.functions[name]
    if open_branch(whole.function) is not None:
        plain = in_plain_blocks(with_inlined_calls(module, name), name)
        if open_branch(plain[name]) is not None:
            return BranchedSharded(plain, name, options)
    sizes = [v for v in bound_by_arguments(function.params) if isinstance(v, Sym)]
    if sizes and whole.late is not None:
        return GenericSharded(module, name, function, sizes, options)
    return Sharded(whole, options)


@attrs.frozen(eq=False)
class Sharded:
    """A function that runs in shards. Plans are cached per sizes."""

    prepared: ShardableFunction
    options: Mapping[str, Any]
    plans: dict[tuple[tuple[str, Any], ...], Plan] = attrs.Factory(dict)
    programs: dict[Plan, ShardProgram] = attrs.Factory(dict)

    def arguments(self, args: Sequence[Value], names: Mapping[str, Value]) -> tuple[Value, ...]:
        """Returns the arguments of a call in the order of the parameters; numbers and lists become
        arrays, as in calls of an executable."""
        params, defaults = self.params, partial(default_values, self.function)
        values = arguments_of(self.name, params, args, names, defaults)
        if self.prepared.boundary is not None:
            values = self.prepared.boundary.arguments(values)
        pairs = zip(params, values, strict=True)
        values = tuple([argument_value(param, value, self.name) for param, value in pairs])
        late, host = self.prepared.late, self.prepared.host
        if late is not None:
            values = (*values, *late.values(values, self.sizes_of(params, values)))
        if host is not None:
            values = (*values, *host.operands(values, self.sizes_of(host.params, values)))
        return values

    def arguments_beside(
        self, placed: Mapping[str, Value], args: Sequence[Value], names: Mapping[str, Value]
    ) -> tuple[Value, ...]:
        """Returns the arguments of a call that omits the parameters that are placed."""
        params = [p for p in self.params if p.name not in placed]
        values = arguments_of(
            self.name, params, args, names, partial(default_values, self.function)
        )
        both = {**placed, **{p.name: v for p, v in zip(params, values, strict=True)}}
        return self.arguments((), {p.name: both[p.name] for p in self.params})

    def weight_arguments(
        self, weights: Mapping[str, Value]
    ) -> tuple[dict[str, Value], dict[str, Value]]:
        """Returns weights by parameter, converted as arguments are, and by name in a plan."""
        values: dict[str, Value] = {}
        tensors: dict[str, Value] = {}
        for position, param in enumerate(self.params):
            if param.name not in weights:
                continue
            values[param.name] = self.argument(position, weights[param.name])
            tensors.update(named_tensors(param.name, param.struct_info, values[param.name]))
        return values, tensors

    def argument(self, position: int, value: Value) -> Value:
        """Returns the argument of one parameter."""
        if self.prepared.boundary is not None:
            value = self.prepared.boundary.argument(position, value)
        return argument_value(self.params[position], value, self.name)

    @property
    def module(self) -> IRModule:
        """The module, with inlined calls."""
        return self.prepared.module

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.prepared.name

    @property
    def function(self) -> Function:
        """The function, with the parts of ragged tensors and other values as parameters."""
        return self.prepared.function

    @property
    def params(self) -> tuple[Var, ...]:
        """The parameters of a call, with the parts of ragged tensors."""
        return self.prepared.params

    def sizes(self, args: Sequence[Value]) -> dict[str, Any]:
        """Returns the symbolic sizes of arguments, the row lengths of ragged ones, and the sizes
        that match_casts bind to their elements."""
        sizes = self.sizes_of(self.function.params, args)
        return sizes | sizes_of_elements(self.module, self.function, sizes, args)

    def sizes_of(self, params: Sequence[Var], args: Sequence[Value]) -> dict[str, Any]:
        """Returns the symbolic sizes of arguments, and the row lengths of ragged ones."""
        sizes: dict[str, Any] = infer_sizes(self.name, params, args)
        boundary = self.prepared.boundary
        if boundary is not None:
            sizes |= rows_of_arguments(self.function, boundary, args)
        return sizes

    def result(self, program: Program, results: Iterable[Value], args: Sequence[Value]) -> Value:
        """Returns the result with these tensors, its other fields, and ragged arrays in place of
        their parts."""
        boundary, host = self.prepared.boundary, self.prepared.host
        others: tuple[Value, ...] = ()
        if host is not None:
            args = args[: len(host.params)]
            others = host.results(args, self.sizes_of(host.params, args))
        value = pack_results(program, results, others)
        return value if boundary is None else boundary.joined(value, args)

    def plan(self, /, *args: Value, **names: Value) -> Plan:
        """Returns the plan for the shapes of these arguments: NumPy arrays, Dask arrays, or objects
        with `shape` and `dtype`."""
        return self.plan_for(self.arguments(args, names))

    def plan_for(self, args: Sequence[Value]) -> Plan:
        """Returns the plan for arguments of all parameters of the function."""
        sizes = self.sizes(args)
        key = tuple(sorted(sizes.items()))
        if key not in self.plans:
            self.plans[key] = plan_of_prepared(self.prepared, sizes=sizes, **self.options)
        return self.plans[key]

    @cached_property
    def lifted(self) -> Function:
        """The function with its large constants as parameters."""
        return lift_constants(self.function)[0]

    def shard_program(self, plan: Plan) -> ShardProgram:
        """Returns the program that a worker needs to run the shards of a plan."""
        if plan not in self.programs:
            self.programs[plan] = self.program_at(plan.sizes, plan.pieces)
        return self.programs[plan]

    def program_at(self, sizes: Mapping[str, Any], pieces: int = 1) -> ShardProgram:
        """Returns the program that a worker needs, at sizes."""
        others = _used_by(self.function, self.module)
        return make_shard_program(self.name, self.lifted, others, sizes, pieces)

    def worker_state(self, plan: Plan) -> WorkerState:
        """Returns the state of this process as a worker of a plan."""
        return worker_state(self.shard_program(plan))

    def __call__(self, /, *args: Value, **names: Value) -> Value:
        """Computes the result for NumPy arguments, shard after shard in this process."""
        args = self.arguments(args, names)
        plan = self.plan_for(args)
        program = self.shard_program(plan)
        inputs = self.values(plan, args)
        outputs = [
            run_task(program, make_task(shard), *[_slice(inputs[n], b) for n, b in shard.inputs])
            for shard in plan.shards
        ]
        results = allocate_results(plan)
        for cell, blocks in enumerate(reduce_cells(plan, outputs, combine_partials)):
            store_blocks(plan, cell, blocks, results)
        return self.result(plan.program, results, args)

    def values(self, plan: Plan, args: Sequence[Value]) -> dict[str, Value]:
        """Returns the inputs by their name in the plan: tuple fields separately, and constants."""
        inputs: dict[str, Value] = dict(plan.constants)
        for param, value in zip(self.function.params, args, strict=True):
            inputs.update(named_tensors(param.name, param.struct_info, value))
        return inputs

    def on_dask(self, /, *args: Value, **names: Value) -> Value:
        """Returns the result as lazy Dask arrays, one block per shard.

        Arguments may be Dask arrays, so that functions can be chained without gathering results.
        Requires the extra `structir[distributed]`. Raises DiagnosticError for ragged results."""
        boundary = self.prepared.boundary
        if boundary is not None:
            boundary.check_dense_result()
        args = self.arguments(args, names)
        return dask_executor.dask_arrays(self, args)

    def compute(
        self, /, *args: Value, client: Any = None, progress: bool = False, **names: Value
    ) -> Value:
        """Computes the result as NumPy arrays with Dask: on the cluster of `client`, or on threads
        of this process."""
        args = self.arguments(args, names)
        return dask_executor.compute_results(self, args, client, progress)


class ShardedAtArguments(ABC):
    """A function that runs in shards as another one, which its arguments determine."""

    @abstractmethod
    def at(self, /, *args: Value, **names: Value) -> Sharded:
        """Returns the sharded function for these arguments."""

    def plan(self, /, *args: Value, **names: Value) -> Plan:
        """Returns the plan for these arguments."""
        return self.at(*args, **names).plan(*args, **names)

    def __call__(self, /, *args: Value, **names: Value) -> Value:
        """Computes the result for NumPy arguments, shard after shard in this process."""
        return self.at(*args, **names)(*args, **names)

    def on_dask(self, /, *args: Value, **names: Value) -> Value:
        """Returns the result as lazy Dask arrays, as `Sharded.on_dask` does."""
        return self.at(*args, **names).on_dask(*args, **names)

    def compute(
        self, /, *args: Value, client: Any = None, progress: bool = False, **names: Value
    ) -> Value:
        """Computes the result as NumPy arrays with Dask, as `Sharded.compute` does."""
        sharded = self.at(*args, **names)
        return sharded.compute(*args, client=client, progress=progress, **names)


@attrs.frozen(eq=False)
class BranchedSharded(ShardedAtArguments):
    """A function with conditionals whose branches have results of different shapes: one sharded
    function for each combination of branches."""

    module: IRModule
    name: str
    options: Mapping[str, Any]
    instances: dict[tuple[bool, ...], Sharded | ShardedAtArguments] = attrs.Factory(dict)
    modules: dict[tuple[bool, ...], IRModule] = attrs.Factory(dict)  # with the first ones decided

    def at(self, /, *args: Value, **names: Value) -> Sharded:
        """Returns the sharded function with the branches that these arguments choose."""
        module = self.module
        sides: tuple[bool, ...] = ()
        function: Any = module.functions[self.name]
        defaults = partial(default_values, function)
        arguments = arguments_of(self.name, function.params, args, names, defaults)
        while (branch := open_branch(function)) is not None:
            pairs = zip(function.params, arguments, strict=True)
            values = [argument_value(param, value, self.name) for param, value in pairs]
            sizes = infer_sizes(self.name, function.params, values)
            side = condition_of(module, self.name, branch, values, sizes)
            sides = (*sides, side)
            if sides not in self.modules:
                chosen = with_branch(function, branch, side)
                functions = {**module.functions, self.name: chosen}
                self.modules[sides] = module.with_functions(functions)
            module = self.modules[sides]
            function = module.functions[self.name]
        if sides not in self.instances:
            self.instances[sides] = _of_known_form(module, self.name, self.options)
        return _at(self.instances[sides], args, names)


@attrs.frozen(eq=False)
class GenericSharded(ShardedAtArguments):
    """A function that runs in shards at the values of some variables, for row variables, dtypes and
    sizes: one sharded function for each combination."""

    module: IRModule
    name: str
    function: Function
    variables: Sequence[Any]
    options: Mapping[str, Any]
    instances: dict[Any, Sharded | ShardedAtArguments] = attrs.Factory(dict)

    def at(self, /, *args: Value, **names: Value) -> Sharded:
        """Returns the sharded function at the ranks, dtypes or sizes of these arguments."""
        params, defaults = self.function.params, partial(default_values, self.function)
        values = arguments_of(self.name, params, args, names, defaults)
        pairs = zip(params, values, strict=True)
        converted = [argument_value(param, value, self.name) for param, value in pairs]
        bound = _bound(self.name, params, converted)
        form = {v: known(bound[v]) for v in self.variables if v in bound}
        check = partial(_bound, self.name, args=converted)
        form |= undetermined_ranks(self.function, form, converted, check)
        key = tuple(form.values())
        if key not in self.instances:
            instance = with_form(self.module, self.name, self.function, form)
            self.instances[key] = _of_known_form(instance, self.name, self.options)
        return _at(self.instances[key], args, names)


def _at(
    sharded: Sharded | ShardedAtArguments, args: Sequence[Value], names: Mapping[str, Value]
) -> Sharded:
    return sharded if isinstance(sharded, Sharded) else sharded.at(*args, **names)


def _used_by(function: Function, module: IRModule) -> dict[str, Any]:
    """Returns the functions of the module that a function calls, transitively."""
    used: dict[str, Any] = {}
    worklist: list[Any] = [function]
    while worklist:
        names = {part.name for part in walk(worklist.pop()) if isinstance(part, GlobalVar)}
        new = {name: module.functions[name] for name in sorted(names - used.keys())}
        used |= new
        worklist += new.values()
    return used


def _slice(value: Value, bounds: Bounds | None) -> Value:
    return value if bounds is None else np.asarray(value[slices(bounds)], order="C")


def named_tensors(name: str, info: StructInfo, value: Value) -> Iterator[tuple[str, Value]]:
    """Yields the tensors of an argument with their names in a plan."""
    if not isinstance(info, TupleStructInfo):
        yield name, value
        return
    for k, (field, each) in enumerate(zip(info.fields, value, strict=True)):
        yield from named_tensors(f"{name}[{k}]", field, each)


@attrs.frozen(eq=False)
class _Described(ForeignTensor):
    """The shape and the dtype of an argument, which may be a Dask array."""

    shape: tuple[int, ...]
    dtype: Any


def _described(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple(map(_described, value))
    is_array = isinstance(value, np.ndarray | np.generic | RaggedArray)
    if is_array or not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return value
    return _Described(tuple(map(int, value.shape)), np.dtype(value.dtype))


def infer_sizes(name: str, params: Sequence[Var], args: Sequence[Value]) -> dict[str, int]:
    """Infers the symbolic sizes from arguments; raises ShapeMismatchError where they do not
    match."""
    bound = _bound(name, params, args)
    return {symbol.name: size for symbol, size in bound.items() if isinstance(symbol, Sym)}


def _bound(name: str, params: Sequence[Var], args: Sequence[Value]) -> Mapping[Any, Any]:
    """Returns the sizes and dtypes that arguments bind."""
    check_call(name, params, args)
    scope = Activation({}, {})
    pairs = zip(params, args, strict=True)
    match([(p.struct_info, _described(v), f"{name}: parameter {p.name}") for p, v in pairs], scope)
    return scope.sizes

"""Values that are not split, such as scalars, shapes and objects: computed once, beside the shards.

A function becomes one of tensors: each such value that its calls take is an additional parameter,
and the fields of its result that are no tensors are returned by a function of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from structir.analysis.substitution import Substitution
from structir.analysis.variables import free_vars, symbols_in
from structir.batching.expansion_values import without_dataflow
from structir.distributed.distinct_names import unused_name, with_distinct_names
from structir.distributed.known_values import without_sizes
from structir.distributed.tuple_fields import has_mixed_tuples, with_separate_fields
from structir.interpret.interpreter import Interpreter
from structir.ir.dims import sym
from structir.ir.expr import (
    Binding,
    BindingBlock,
    Constant,
    DataTypeImm,
    Expr,
    Function,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.struct_info import (
    OBJECT,
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.lazy import lazy_module
from structir.runtime.function_forms import OfForm

np = lazy_module("numpy")
Value = Any
IMMEDIATE = (Constant, PrimValue, ShapeExpr, StringImm, DataTypeImm)


def needed_bindings(bindings: Sequence[Binding], *results: Expr) -> list[Binding]:
    """Returns the bindings that values depend on, in order."""
    used = {v for result in results for v in free_vars(result)}
    sizes = set(symbols_in(results))
    needed: list[Binding] = []
    for binding in reversed(bindings):
        info = binding.struct_info if isinstance(binding, MatchCast) else None
        if binding.var in used or (info is not None and sizes & symbols_in(info).keys()):
            needed.append(binding)
            used.update(free_vars(binding.value))
            sizes.update(symbols_in((binding.value, info)))
    return needed[::-1]


@attrs.frozen(eq=False)
class HostFunction:
    """Computes some values of a function in this process, without its shards."""

    module: IRModule
    function: Function
    positions: tuple[int, ...]  # of its parameters among those of the original function
    instances: dict[Any, IRModule] = attrs.Factory(dict)

    @staticmethod
    def of(
        module: IRModule,
        params: Sequence[Var],
        bindings: Sequence[Binding],
        results: Sequence[Expr],
    ) -> HostFunction:
        """Returns the function of values that bindings compute from parameters."""
        result = Tuple(tuple(results))
        needed = needed_bindings(bindings, result)
        body = SeqExpr((BindingBlock(tuple(needed)),) if needed else (), result)
        used = {*free_vars(body)}
        positions = tuple([k for k, param in enumerate(params) if param in used])
        function = Function(tuple([params[k] for k in positions]), body, OBJECT)
        return HostFunction(module, Substitution(fresh=True).function(function), positions)

    def __call__(self, args: Sequence[Value], sizes: Mapping[str, Any]) -> tuple[Value, ...]:
        """Returns the values for the arguments of the original function and its sizes."""
        key = tuple(sorted(sizes.items()))
        functions = self.module.functions
        name = unused_name("host", functions)
        if key not in self.instances:
            numbers = {s: sizes[s.name] for s in symbols_in(self.function) if s.name in sizes}
            function = Substitution(dims=numbers).function(self.function)
            self.instances[key] = self.module.with_functions({**functions, name: function})
        arguments = [in_memory(args[k]) for k in self.positions]
        # a branch that is not taken may contradict the sizes, so the instance is not checked
        run = Interpreter(self.instances[key]).global_function(name)
        values: tuple[Value, ...] = run(*arguments)
        return values


def in_memory(value: Value) -> Value:
    """Returns an argument with Dask arrays as NumPy arrays."""
    if isinstance(value, tuple):
        return tuple(map(in_memory, value))
    return np.asarray(value) if hasattr(value, "dask") else value


@attrs.frozen(eq=False)
class HostValues:
    """The values of a function that its shards do not compute.

    `params` are those of the original function; `operands` computes the arguments for the
    additional ones, and `results` the fields of the result that are no tensors, in order.
    """

    params: tuple[Var, ...]
    operands: HostFunction
    results: HostFunction


def with_host_values(module: IRModule, function: Function) -> tuple[Function, HostValues | None]:
    """Returns a function that computes tensors from its parameters, and the other values.

    A function that has no other values is returned unchanged. `module` has those that it calls."""
    if has_mixed_tuples(function):
        function = with_separate_fields(without_dataflow(function))
    bindings = list(function.body.bindings())
    known, computed = _plain_variables(function, bindings)
    if not known and not computed and not _SplitResult(function.body.body, bindings).plain:
        return function, None
    function = without_dataflow(function)
    bindings = list(function.body.bindings())
    known, computed = _plain_variables(function, bindings)
    split = _SplitResult(function.body.body, bindings)
    additional = {v: Var(v.name, _with_dims(v), v.span) for v in computed}
    rewriting = Substitution({**known, **additional, **_shapes(additional)})
    result = function.body.body
    if split.plain:
        bindings, result = [*bindings, *split.bindings], split.tensors
    kept = [
        rewriting.binding(binding) if _takes_values(binding) else binding
        for binding in bindings
        if binding.var not in additional or is_plain(binding.var.struct_info)
    ]
    body = SeqExpr((BindingBlock(tuple(kept)),) if kept else (), rewriting.part(result))
    info = without_sizes(body.body.struct_info)
    params = (*function.params, *additional.values())
    sharded = replace(function, params=params, body=body, ret_struct_info=info)
    if any(v.struct_info != param.struct_info for v, param in additional.items()):
        sharded = OfForm({}).instance(sharded)
    sharded = with_distinct_names(sharded)
    hosts = [
        HostFunction.of(module, function.params, bindings, values)
        for values in (computed, split.plain)
    ]
    return sharded, HostValues(function.params, *hosts)


def _with_dims(var: Var) -> StructInfo:
    """Returns the StructInfo of a variable with a dim for each axis of a shape or tensor of known
    rank; arguments bind them."""
    info = var.struct_info
    if not isinstance(info, TensorStructInfo | ShapeStructInfo) or info.ndim is None:
        return info
    named = tuple([sym(f"{var.name}{axis}") for axis in range(info.ndim)])
    return info if isinstance(info.dims, tuple) else replace(info, dims=named)


def _shapes(additional: Mapping[Var, Var]) -> dict[Var, Expr]:
    """Returns the shapes among the additional parameters as expressions of their dims."""
    values = {var: known_value(param, {}) for var, param in additional.items()}
    return {var: value for var, value in values.items() if value is not None}


def is_plain(info: StructInfo | None) -> bool:
    """Whether a value is neither a tensor nor a tuple."""
    return not isinstance(info, TensorStructInfo | TupleStructInfo)


def _takes_values(binding: Binding) -> bool:
    """Whether a binding computes a tensor or a closure; the others bind sizes."""
    return not is_plain(binding.var.struct_info) or isinstance(binding.value, Function)


def _plain_variables(
    function: Function, bindings: Sequence[Binding]
) -> tuple[dict[Var, Expr], list[Var]]:
    """Returns the plain variables of known value, with it, and those that calls take otherwise.

    A tensor that a match_cast takes from a plain value is one of the latter."""
    plain = {b.var for b in bindings if is_plain(b.var.struct_info)}
    plain -= {b.var for b in bindings if isinstance(b.var.struct_info, FuncStructInfo)}
    known = _known_values(bindings)
    sources = {*plain, *[p for p in function.params if is_plain(p.struct_info)]}
    computed: dict[Var, None] = {}
    for binding in bindings:
        if not _takes_values(binding):
            continue
        if isinstance(binding, MatchCast) and binding.value in sources:
            computed[binding.var] = None
            continue
        used = [v for v in free_vars(binding.value) if v in plain]
        computed |= dict.fromkeys([v for v in used if v not in known])
    return known, list(computed)


def _known_values(bindings: Sequence[Binding]) -> dict[Var, Expr]:
    """Returns the plain variables of known value, in branches, too."""
    values = {b.var: b.value for b in bindings}
    plain = [v for v in values if is_plain(v.struct_info)]
    known = {v: value for v in plain if (value := known_value(v, values)) is not None}
    for value in values.values():
        for branch in (value.true_branch, value.false_branch) if isinstance(value, If) else ():
            known |= _known_values(list(branch.bindings()))
    return known


def known_value(expr: Expr, values: Mapping[Any, Expr]) -> Expr | None:
    """Returns the value of an expression without elements as an expression of sizes; None if only
    a run determines it."""
    while isinstance(expr, Var) and isinstance(values.get(expr), Var):
        expr = values[expr]
    info, value = expr.struct_info, values.get(expr, expr)
    if isinstance(value, IMMEDIATE):
        return value
    if isinstance(info, ShapeStructInfo) and isinstance(info.dims, tuple):
        return ShapeExpr(info.dims)
    if isinstance(info, PrimStructInfo) and info.value is not None:
        return PrimValue(info.value)
    return None


class _SplitResult:
    """A result with a number in place of each plain field, and these fields in order."""

    def __init__(self, result: Expr, bindings: Sequence[Binding]) -> None:
        self.values: dict[Any, Expr] = {b.var: b.value for b in bindings}
        self.plain: list[Expr] = []
        self.bindings: list[Binding] = []  # of the fields of values
        self.tensors = self.visit(result)

    def visit(self, expr: Expr) -> Expr:
        info = expr.struct_info
        if isinstance(expr, Tuple) or isinstance(info, TupleStructInfo):
            return Tuple(tuple([self.visit(field) for field in self.fields(expr)]))
        if is_plain(info):
            self.plain.append(expr)
            return PrimValue(0)
        return expr

    def fields(self, expr: Any) -> Iterator[Expr]:
        """Yields the fields of a tuple."""
        value: Any = self.values.get(expr, expr)
        if isinstance(value, Tuple):
            yield from value.fields
            return
        for k, info in enumerate(expr.struct_info.fields):
            var = Var(f"field{len(self.bindings)}", info)
            self.bindings.append(VarBinding(var, TupleGetItem(expr, k, info)))
            yield var


def binds_plain_values(value: If) -> bool:
    """Whether a branch of a conditional computes plain values that its calls take."""
    for branch in (value.true_branch, value.false_branch):
        bindings = list(branch.bindings())
        nested = [b.value for b in bindings if isinstance(b.value, If)]
        function = Function((), branch, branch.body.struct_info)
        if _plain_variables(function, bindings)[1] or any(map(binds_plain_values, nested)):
            return True
    return False

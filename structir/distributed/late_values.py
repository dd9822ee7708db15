"""Values whose sizes only a run determines, such as the distinct elements of a tensor: computed
once, beside the shards, which receive them as arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from structir.analysis.substitution import Substitution
from structir.analysis.variables import free_vars, symbols_in
from structir.batching.expansion_values import without_dataflow
from structir.distributed.distinct_names import with_distinct_names
from structir.distributed.host_values import HostFunction
from structir.distributed.known_values import without_sizes
from structir.distributed.open_branches import bound_by_arguments, is_late, is_open_branch
from structir.distributed.tensor_fields import tensors
from structir.ir.binding_dims import standing_alone
from structir.ir.dims import sym
from structir.ir.expr import Binding, BindingBlock, Function, MatchCast, SeqExpr, Var
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.struct_info import OBJECT, StructInfo, TensorStructInfo, TupleStructInfo
from structir.runtime.function_forms import OfForm


@attrs.frozen(eq=False)
class LateValues:
    """The values of a function whose sizes only a run determines. `params` are the parameters of a
    call, and `values` computes the arguments for the additional ones."""

    params: tuple[Var, ...]
    values: HostFunction


def with_late_values(module: IRModule, function: Function) -> tuple[Function, LateValues | None]:
    """Returns a function that receives its values of unknown sizes, and these values.

    A function that has none is returned unchanged. `module` has the functions that it calls."""
    bound = bound_by_arguments(function.params)
    if not any(_late_bindings(function.body.bindings(), bound)):
        return function, None
    function = without_dataflow(function)
    scope = _LateScope(function)
    for binding in function.body.bindings():
        scope.add(binding)
    blocks = (BindingBlock(tuple(scope.kept)),) if scope.kept else ()
    params = {p: Var(p.name, _planned(p.struct_info), p.span) for p in scope.late.values()}
    body = Substitution(params).sequence(SeqExpr(blocks, scope.form.part(function.body.body)))
    late = {v: params[p] for v, p in scope.late.items() if _is_used(params[p], body, bound)}
    infos: Any = body.body.struct_info
    sharded = replace(
        function,
        params=(*function.params, *late.values()),
        body=body,
        ret_struct_info=without_sizes(infos),
    )
    bindings = list(function.body.bindings())
    values = HostFunction.of(module, function.params, bindings, tuple(late))
    return with_distinct_names(sharded), LateValues(function.params, values)


def _late_bindings(bindings: Iterable[Binding], bound: set[Any]) -> Iterator[Binding]:
    """Yields the bindings of values of unknown sizes."""
    known = set(bound)
    for binding in bindings:
        if isinstance(binding, MatchCast):
            known |= set(standing_alone([binding.struct_info]))
        if is_late(binding.var.struct_info, known) and not is_open_branch(binding, known):
            yield binding


def _is_used(param: Var, body: SeqExpr, bound: set[Any]) -> bool:
    """Whether a body takes an additional parameter, or a size that it binds."""
    sizes = set(standing_alone([param.struct_info])) - bound
    return param in set(free_vars(body)) or not sizes.isdisjoint(symbols_in(body))


class _LateScope:
    """The bindings of a function, with additional parameters in place of late values.

    Values of unknown rank or dtype, and those that depend on them, stay in the calling process."""

    def __init__(self, function: Function) -> None:
        self.form = OfForm({})
        self.form.bound_before.update(standing_alone([p.struct_info for p in function.params]))
        self.known = bound_by_arguments(function.params)
        self.kept: list[Binding] = []
        self.late: dict[Var, Var] = {}  # parameters by variables of the function
        self.open: set[Var] = set()  # and closures that capture them

    def add(self, binding: Binding) -> None:
        """Keeps a binding, with its StructInfo inferred again, or replaces its variable."""
        new = self.form.binding(binding)
        takes_open = not self.open.isdisjoint(free_vars(new.value))
        if isinstance(new, MatchCast):
            self.known |= set(standing_alone([new.struct_info]))
        if isinstance(new.value, Function):
            if takes_open:
                self.open.add(new.var)
            else:
                self.kept.append(new)
            return
        late = is_late(new.var.struct_info, self.known) and not is_open_branch(new, self.known)
        if not late and not takes_open:
            self.kept.append(new)
            return
        info = _named(new.var.struct_info, new.var.name)
        param = Var(new.var.name, info, new.var.span)
        self.form.variables[binding.var] = self.late[binding.var] = param
        self.known |= set(standing_alone([info]))
        if any(map(_is_open, tensors(info))):
            self.open.add(param)


def _named(info: StructInfo, name: str) -> StructInfo:
    """Returns a StructInfo with a dim for each axis of unknown size."""
    if isinstance(info, TupleStructInfo):
        fields = [_named(field, f"{name}_{k}_") for k, field in enumerate(info.fields)]
        return TupleStructInfo(tuple(fields), info.names)
    if not isinstance(info, TensorStructInfo) or isinstance(info.dims, tuple) or info.ndim is None:
        return info
    return replace(info, dims=tuple([sym(f"{name}{axis}") for axis in range(info.ndim)]), axes=None)


def _planned(info: StructInfo) -> StructInfo:
    """Returns a StructInfo without tensors of unknown rank or dtype, which no shard receives."""
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo(tuple(map(_planned, info.fields)), info.names)
    return OBJECT if isinstance(info, TensorStructInfo) and _is_open(info) else info


def _is_open(info: TensorStructInfo) -> bool:
    """Whether a tensor has no known rank or no known dtype."""
    return info.ndim is None or info.element is None

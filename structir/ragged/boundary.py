"""Modules whose ragged tensors are tuples of dense ones: values, row starts and row limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from structir.analysis.axes import tensor
from structir.analysis.substitution import Substitution
from structir.analysis.variables import symbols_in, walk_values
from structir.analysis.well_formed import well_formed
from structir.ir.axes import AnySize, size_in
from structir.ir.binding_dims import bound_dims
from structir.ir.dims import Dim, as_sym, sym
from structir.ir.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowVar,
    Expr,
    Function,
    GlobalVar,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.op import Op
from structir.ir.struct_info import FuncStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from structir.ops.ragged import check_ragged, has_ragged_axis, label_of

Field = tuple[int, int]  # of a parameter: its index, and the field of its tuple
Sources = Any  # the number of a parameter, ORDERED, or None; for a tuple, a tuple of these
ORDERED = "ordered"  # the rows of a result are in order, without gaps, by their computation
FIELDS = {"ragged.values": 0, "ragged.row_starts": 1, "ragged.row_limits": 2}


@attrs.frozen(eq=False)
class RowsCheck:
    """Two parameters whose ragged axes must have equal offsets, and the op that needs it."""

    first: int
    second: int
    where: str


@attrs.define(eq=False)
class TupleModule:
    """A module without ragged tensors, and the checks of the arguments of its functions."""

    module: IRModule
    original: IRModule
    checks: dict[str, list[RowsCheck]]
    sources: dict[str, Sources] = attrs.Factory(dict)


def share_rows(tuples: TupleModule) -> None:
    """Leaves out the rows of results that have those of a parameter, where no function is
    called by another one."""
    functions = dict(tuples.module.functions)
    values: list[Any] = [v for f in functions.values() for v in walk_values(f)]
    called = {v.name for v in values if type(v) is GlobalVar}
    for name, function in functions.items():
        original = tuples.original.functions[name]
        if not isinstance(function, Function) or name in called:
            continue
        bound = {b.var: b.value for b in function.body.bindings()}
        params = zip(function.params, original.params, strict=True)  # type: ignore[attr-defined]
        rows = {p: k for k, (p, old) in enumerate(params) if has_ragged_axis(old.struct_info)}
        info = original.ret_struct_info  # type: ignore[attr-defined]
        returned = function.ret_struct_info
        result, returned, sources = _without_rows(info, returned, function.body.body, bound, rows)
        if sources is not None:
            body = replace(function.body, body=result, struct_info=returned)
            functions[name] = replace(function, body=body, ret_struct_info=returned)
            tuples.sources[name] = sources
    tuples.module = tuples.module.with_functions(functions)


def _without_rows(
    info: StructInfo,
    returned: Any,
    value: Expr,
    values: dict[Var, Expr],
    params: dict[Any, int],
) -> tuple[Expr, StructInfo, Sources]:
    """Returns a result and its StructInfo without the rows of parameters, and the numbers of
    these parameters."""
    whole: Any = values.get(value, value)  # type: ignore[call-overload]
    unchanged = value, returned, None
    if not isinstance(whole, Tuple):
        return unchanged
    if has_ragged_axis(info):
        fields: list[Any] = [values.get(f, f) for f in whole.fields[1:]]  # type: ignore[call-overload]
        if all([isinstance(f, TupleGetItem) and f.tuple_value in params for f in fields]):
            first, second = [f.tuple_value for f in fields]
            if first is second and [f.index for f in fields] == [1, 2]:
                return whole.fields[0], returned.fields[0], params[first]
        if _are_in_order(whole.fields[1:], values, params):
            return value, returned, ORDERED
        return unchanged
    if not isinstance(info, TupleStructInfo):
        return unchanged
    parts = [
        _without_rows(field, own, part, values, params)
        for field, own, part in zip(info.fields, returned.fields, whole.fields, strict=True)
    ]
    sources = tuple([source for _, _, source in parts])
    if all([source is None for source in sources]):
        return unchanged
    own_infos = TupleStructInfo(tuple([own for _, own, _ in parts]))
    return Tuple(tuple([part for part, _, _ in parts])), own_infos, sources


def _are_in_order(ends: Sequence[Expr], values: dict[Var, Expr], params: dict[Any, int]) -> bool:
    """Whether starts and limits of rows are those of a parameter, or sums of such."""
    fields: list[Any] = [values.get(end) for end in ends]  # type: ignore[call-overload]
    if all([isinstance(f, TupleGetItem) and f.tuple_value in params for f in fields]):
        start, limit = fields
        return start.tuple_value is limit.tuple_value and (start.index, limit.index) == (1, 2)
    added = [_terms(end, values) for end in ends]
    return all(added) and all([_are_in_order(e, values, params) for e in zip(*added, strict=True)])


def _terms(value: Any, values: dict[Var, Expr]) -> Sequence[Any]:
    """Returns the arguments of the addition that a variable is bound to; none for other values."""
    call = values.get(value)
    is_sum = isinstance(call, Call) and isinstance(call.op, Op) and call.op.name == "add"
    return call.args if is_sum else ()  # type: ignore[union-attr]


def as_tuples(lowered: IRModule) -> TupleModule:
    """Returns a lowered module whose ragged tensors are tuples."""
    functions: dict[str, Any] = {}
    checks: dict[str, list[RowsCheck]] = {}
    for name, function in lowered.functions.items():
        if isinstance(function, Function):
            functions[name], checks[name] = _as_tuples(function)
        else:
            functions[name] = function
    return TupleModule(lowered.with_functions(functions), lowered, checks)


def _as_tuples(function: Function) -> tuple[Function, list[RowsCheck]]:
    """Returns a function with tuples, and the checks of its arguments.

    Sizes that its match_casts name are replaced by known ones, unless these contradict a later
    check: the function then fails at run time.
    """
    form = TupleForm()
    new = form.function(function)
    if form.replaces_names and not well_formed(new):
        form = TupleForm(keep_names=True)
        new = form.function(function)
    return new, form.checks


def tuple_info(info: StructInfo, total: Callable[[str], Any] = lambda label: AnySize()) -> Any:
    """Returns a StructInfo with tuples in place of ragged tensors; `total` is the number of
    values in rows of a name."""
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo(tuple([tuple_info(f, total) for f in info.fields]), info.names)
    if isinstance(info, FuncStructInfo) and info.params is not None:
        params = tuple([tuple_info(param) for param in info.params])
        return replace(info, params=params, ret=tuple_info(info.ret))
    if not has_ragged_axis(info):
        return info
    ragged: Any = info
    position = check_ragged(ragged)
    axes = tuple(map(size_in, ragged.axes))
    rows = tensor(axes[:position], "int64", ragged.vdevice)
    sizes = (total(label_of(ragged)), *axes[position + 1 :])
    return TupleStructInfo((tensor(sizes, ragged.element, ragged.vdevice), rows, rows))


class TupleForm(Substitution):
    """Rebuilds a function with tuples in place of ragged tensors."""

    def __init__(self, *, keep_names: bool = False) -> None:
        super().__init__()
        self.keep_names = keep_names
        self.replaces_names = False
        self.checks: list[RowsCheck] = []
        self.fields: dict[Expr, Field] = {}
        self.params: dict[Expr, int] = {}
        self.in_scope: set[Any] = set()
        self.depth = 0

    def info(self, info: StructInfo) -> StructInfo:
        """Returns a StructInfo with tuples, and with its sizes replaced."""
        return super().info(tuple_info(info))

    def function(self, function: Function) -> Function:
        """Returns a function of tuples; the values of each parameter have a size of their own."""
        totals: dict[str, Dim] = {}

        def total(label: str) -> Dim:
            return totals.setdefault(label, sym("t")) if label else sym("t")

        for k, param in enumerate(function.params):
            info = tuple_info(param.struct_info, total)
            new = Var(param.name, info, param.span) if info != param.struct_info else param
            self.variables[param] = new
            if has_ragged_axis(param.struct_info):
                self.params[new] = k
        params = tuple([self.variables[param] for param in function.params])
        self.in_scope |= bound_dims([param.struct_info for param in params])
        body, result = self.sequence(function.body), self.info(function.ret_struct_info)
        return replace(function, params=params, body=body, ret_struct_info=result)

    def bound(self, var: Var) -> Var:
        """Returns the variable that is bound instead, visible in the whole function."""
        new = super().bound(var)
        if type(new) is DataflowVar:
            info: Any = new.struct_info
            new = self.variables[var] = Var(new.name, info, new.span)
        return new

    def sequence(self, seq: SeqExpr) -> SeqExpr:
        """Returns a sequence with tuples, as one block."""
        new = super().sequence(seq)
        bindings = tuple(new.bindings())
        return replace(new, blocks=(BindingBlock(bindings),) if bindings else ())

    def part(self, part: Any) -> Any:
        """Returns any part of a program with tuples."""
        if isinstance(part, If | Function):
            self.depth += 1
            try:
                return super().part(part)
            finally:
                self.depth -= 1
        new = super().part(part)
        if type(new) is Call and type(new.op) is Op:
            return self._call(new)
        if type(new) is TupleGetItem:
            return replace(new, struct_info=new.tuple_value.struct_info.fields[new.index])
        return new

    def _call(self, call: Call) -> Expr:
        name = call.op.name  # type: ignore[attr-defined]
        if name in FIELDS and isinstance(call.args[0].struct_info, TupleStructInfo):
            index = FIELDS[name]
            return TupleGetItem(
                call.args[0], index, call.args[0].struct_info.fields[index], call.span
            )
        if name == "ragged.from_values":
            return Tuple(call.args, span=call.span)
        if name == "ragged.same_rows":
            return self._checked(call)
        return call

    def _checked(self, call: Call) -> Expr:
        """Returns the values of a checked tensor; checks of parameters precede the function."""
        values, *rows = call.args
        fields = [self.fields.get(row) for row in rows]
        if self.depth or None in fields:
            return call
        (first, _), _, (second, _), _ = fields  # type: ignore[misc]
        self.checks.append(RowsCheck(first, second, call.attrs["where"]))
        return values

    def binding(self, binding: Binding) -> Binding:
        """Returns a binding; a match_cast of sizes that are known only names them."""
        if isinstance(binding, MatchCast):
            value, cast = self.part(binding.value), binding.struct_info
            if self._names_only(value, cast):
                name, span = binding.var.name, binding.var.span
                info: Any = value.struct_info
                var = self.variables[binding.var] = Var(name, info, span)
                return VarBinding(var, value, binding.span)
            self.in_scope |= bound_dims([cast])
        new = super().binding(binding)
        value = new.value
        if isinstance(new, MatchCast):
            return new
        if type(value) is If:
            value = replace(value, struct_info=self._info_of_branches(value) or value.struct_info)
        if type(value) in (If, Tuple, TupleGetItem) and new.var.struct_info != value.struct_info:
            own: Any = value.struct_info
            var = type(new.var)(new.var.name, own, new.var.span)
            self.variables[binding.var] = var
            new = VarBinding(var, value, new.span)
        if type(value) is TupleGetItem and value.tuple_value in self.params and value.index:
            self.fields[new.var] = (self.params[value.tuple_value], value.index)
        return new

    def _info_of_branches(self, value: If) -> Any:
        """Returns the StructInfo of both branches; None if it differs or mentions sizes that only
        a branch has."""
        infos: list[Any] = [b.body.struct_info for b in (value.true_branch, value.false_branch)]
        known = infos[0] == infos[1] and set(symbols_in(infos[0])) <= self.in_scope
        return infos[0] if known else None

    def _names_only(self, value: Expr, cast: StructInfo) -> bool:
        """Whether a cast of a tensor of known sizes binds all sizes that it does not share."""
        info: Any = value.struct_info
        if self.keep_names or not isinstance(cast, TensorStructInfo):
            return False
        if not isinstance(info, TensorStructInfo):
            return False
        if not isinstance(cast.dims, tuple) or not isinstance(info.dims, tuple):
            return False
        if info.element != cast.element or len(info.dims) != len(cast.dims):
            return False
        new: dict[Any, Dim] = {}
        for declared, actual in zip(cast.dims, info.dims, strict=True):
            declared = self.part(declared)
            symbol = as_sym(declared)
            if declared == actual or (symbol in new and new[symbol] == actual):
                continue
            if symbol is None or symbol in self.in_scope or symbol in self.dims or symbol in new:
                return False
            new[symbol] = actual
        self.replaces_names |= bool(new)
        self.dims.update(new)
        self.infos.clear()
        return True

"""Groups of ops on the same rows, computed row by row by one call of `ragged.rows`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from structir.analysis.variables import free_vars, symbols_in
from structir.build import BlockBuilder
from structir.errors import DiagnosticError
from structir.ir import dims
from structir.ir.binding_dims import bound_dims
from structir.ir.dims import Dim
from structir.ir.expr import (
    Binding,
    Call,
    Expr,
    Function,
    MatchCast,
    PrimValue,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.op import Op
from structir.ir.struct_info import TensorStructInfo, TupleStructInfo
from structir.ops.layout import broadcast_to, expand_dims
from structir.ops.reshape import reshape
from structir.projections.scalar_expr import LoopIndex, walk
from structir.ragged.row_op import row_function, rows

REPEAT, SEGMENT = "segment_expand", "segment_"


@attrs.define(eq=False)
class RowGroup:
    """Bindings over the same rows, in order."""

    starts: Expr
    limits: Expr
    total: Dim
    count: Dim
    members: list[VarBinding] = attrs.Factory(list)


class GroupBuilder:
    """Replaces bindings of one block by calls of `ragged.rows`."""

    def __init__(self, bindings: Sequence[Binding], used: set[Var], is_compiled: Any) -> None:
        self.bindings, self.used, self.is_compiled = bindings, used, is_compiled
        self.levels: dict[Var, int] = {}
        self.group_of: dict[Var, RowGroup] = {}
        self.groups: dict[Any, RowGroup] = {}
        self.definers: dict[Any, Var] = {}  # of the sizes that casts bind
        known: set[Any] = set()  # a cast to sizes that are bound before it is a check
        for binding in bindings:
            for symbol in bound_dims([binding.struct_info]) if type(binding) is MatchCast else ():
                if symbol not in known:
                    self.definers.setdefault(symbol, binding.var)
            known |= {*symbols_in(binding)}
        self.needs = {binding.var: self._needs(binding) for binding in bindings}

    def _needs(self, binding: Binding) -> list[Var]:
        """Returns the variables that a binding uses, and those whose casts bind sizes of it."""
        sizes = symbols_in(binding) if self.definers else ()
        casts = [self.definers[symbol] for symbol in sizes if symbol in self.definers]
        return [v for v in (*free_vars(binding.value), *casts) if v is not binding.var]

    def result(self) -> list[Binding]:
        """Returns the bindings with groups in place of their members."""
        calls: list[Any] = [b.value for b in self.bindings if _is_segment(b)]
        pairs = {(id(call.args[-2]), id(call.args[-1])): call.args[-2:] for call in calls}
        for starts, limits in pairs.values():
            self._collect(starts, limits)
        return self._in_order() if self.groups else list(self.bindings)

    def _collect(self, starts: Expr, limits: Expr) -> None:
        segments = [b for b in self.bindings if _is_segment(b) and _is_of(b, starts, limits)]
        totals = {_first(_values_var(b)) for b in segments}
        count: Any = _first(starts)
        if len(totals) != 1 or count is None or count == 0:
            return
        total = totals.pop()
        levels: dict[Expr, int] = {}
        inside: set[Expr] = set()
        before = self._ancestors([starts, limits])
        for binding in self.bindings:
            operands = self.needs[binding.var]
            level = max([levels.get(v, 0) for v in operands], default=0)
            is_free = binding.var not in self.group_of and binding.var not in before
            if is_free and self._fits(binding, starts, limits, total, count):
                key = (id(starts), id(limits), level)
                group = self.groups.setdefault(key, RowGroup(starts, limits, total, count))
                group.members.append(binding)  # type: ignore[arg-type]
                self.group_of[binding.var] = group
                inside.add(binding.var)
            else:
                level = max([levels.get(v, 0) + (v in inside) for v in operands], default=0)
            levels[binding.var] = level

    def _ancestors(self, values: list[Any]) -> set[Expr]:
        """Returns variables, and those that they are computed from."""
        ancestors, todo = set[Expr](), list(values)
        while todo:
            value = todo.pop()
            if value not in ancestors:
                ancestors.add(value)
                todo += self.needs.get(value, [])
        return ancestors

    def _fits(self, binding: Any, starts: Expr, limits: Expr, total: Dim, count: Dim) -> bool:
        call = binding.value
        if type(binding) is not VarBinding or type(call) is not Call or type(call.op) is not Op:
            return False
        if not all(
            [isinstance(a, Var | PrimValue | ShapeExpr) or _is_scalar(a) for a in call.args]
        ):
            return False
        known = {s for d in (total, count) for s in dims.syms(d)}
        if any([s in self.definers and s not in known for s in symbols_in(binding)]):
            return False
        info: Any = binding.var.struct_info
        if not isinstance(info, TensorStructInfo) or type(info.dims) is not tuple or not info.dims:
            return False
        name = call.op.name
        if name.startswith(SEGMENT):
            return _is_of(binding, starts, limits) and name != "segment_ids"
        if name == "reshape":
            sizes: Any = call.args[0].struct_info.dims
            return (
                type(sizes) is tuple
                and sizes[:1] == info.dims[:1]
                and info.dims[0] in (total, count)
            )
        if any(
            [
                isinstance(a, ShapeExpr) or (isinstance(a, PrimValue) and dims_of(a))
                for a in call.args
            ]
        ):
            return False
        plain = hasattr(call.op.definition, "signature") and not _has_axes(call.op.definition)
        return plain and info.dims[0] in (total, count) and _is_map(call)

    def _prune(self, group: RowGroup) -> None:
        """Removes members that neither compute operands of an op on segments nor use results."""
        kept = {b.var for b in group.members if _is_segment(b)}
        for binding in group.members:
            if kept.intersection(self.needs[binding.var]):
                kept.add(binding.var)
        for binding in group.members[::-1]:
            if binding.var in kept:
                kept.update([v for v in self.needs[binding.var] if self.group_of.get(v) is group])
        for binding in group.members:
            if binding.var not in kept:
                del self.group_of[binding.var]
        group.members = [b for b in group.members if b.var in kept]

    def _in_order(self) -> list[Binding]:
        """Returns groups and other bindings in an order in which operands precede their users."""
        built: dict[int, list[Binding]] = {}
        for group in self.groups.values():
            self._prune(group)
        for group in self.groups.values():
            outer = {
                v
                for b in self.bindings
                if self.group_of.get(b.var) is not group
                for v in free_vars(b.value)
            } | self.used
            calls = fused(group, [b.var for b in group.members if b.var in outer], self.is_compiled)
            if calls is None:
                continue
            built[id(group)] = calls
            if self._ordered(built) is None:  # it needs a result of a group that needs one of its
                del built[id(group)]
        bindings = self._ordered(built)
        assert bindings is not None
        return bindings

    def _ordered(self, built: dict[int, list[Binding]]) -> list[Binding] | None:
        """Returns the bindings with some groups in place of their members, in order; None if groups
        need each other."""
        units: list[list[Binding]] = []
        unit_of: dict[Expr, int] = {}
        done: dict[int, int] = {}
        for binding in self.bindings:
            own = self.group_of.get(binding.var)
            if own is None or id(own) not in built:
                units.append([binding])
                unit_of[binding.var] = len(units) - 1
            elif id(own) not in done:
                done[id(own)] = len(units)
                units.append(built[id(own)])
                for member in own.members:
                    unit_of[member.var] = len(units) - 1
        needs = [
            sorted({unit_of[v] for b in unit for v in self._needs(b) if v in unit_of} - {k})
            for k, unit in enumerate(units)
        ]
        order = _topological(needs)
        return None if order is None else [b for k in order for b in units[k]]


def _topological(needs: Sequence[Sequence[int]]) -> list[int] | None:
    """Returns numbers in an order in which those that one needs precede it; None for a cycle."""
    done: dict[int, None] = {}
    for start in range(len(needs)):
        path = [start]
        while path:
            top = path[-1]
            pending = next((n for n in needs[top] if n not in done), None)
            if pending is None:
                path.pop()
                done[top] = None
            elif pending in path:
                return None
            else:
                path.append(pending)
    return list(done)


def _is_segment(binding: Any) -> bool:
    call = binding.value
    return (
        type(binding) is VarBinding
        and type(call) is Call
        and type(call.op) is Op
        and call.op.name.startswith(SEGMENT)
        and call.op.name != "segment_ids"
    )


def _is_of(binding: Any, starts: Expr, limits: Expr) -> bool:
    """Whether a segment op is on these rows."""
    return binding.value.args[-2] is starts and binding.value.args[-1] is limits


def _values_var(binding: Any) -> Expr:
    call = binding.value
    return binding.var if call.op.name == REPEAT else call.args[0]  # type: ignore[no-any-return]


def _first(value: Expr) -> Any:
    sizes = getattr(value.struct_info, "dims", None)
    return sizes[0] if type(sizes) is tuple and sizes else None


def _is_scalar(value: Any) -> bool:
    return getattr(value.struct_info, "dims", None) == ()


def _is_map(call: Call) -> bool:
    """Whether each element of the result depends on elements at the same index of axis 0."""
    definition: Any = call.op.definition  # type: ignore[attr-defined]
    if "row" in definition.hooks or not hasattr(definition, "index_spec"):
        return False
    try:
        spec = definition.index_spec(call)
    except DiagnosticError:
        return False
    if spec is None or len(spec.statements) != 1 or len(spec.results) != 1 or spec.base is not None:
        return False
    (statement,) = spec.statements
    if statement.reduce or statement.conditions or not spec.computes or not statement.reads:
        return False
    (write,) = statement.writes
    first = dims.as_sym(write.entries[0].index) if write.entries[0].data is None else None
    if first is None or any([first in e.index_vars for e in write.entries[1:]]):
        return False
    if any([isinstance(n, LoopIndex) for n in walk(write.value)]):
        return False
    for read in statement.reads:
        if any([e.data is not None or e.loose or not e.inside for e in read.entries]):
            return False
        if any([first in e.index_vars for e in read.entries[1:]]):
            return False
    return True


def fused(group: RowGroup, outputs: list[Var], is_compiled: Any) -> list[Binding] | None:
    """Returns the bindings of a call of `ragged.rows`; None if it is not worth one."""
    if len(group.members) < 2 or not any(map(_is_segment, group.members)) or not outputs:
        return None
    try:
        function, operands, kinds = _row_function(group, outputs)
    except (DiagnosticError, _NotOneRow):
        return None
    text = IRModule({"main": function}).script()
    returned: Any = row_function(text).ret_struct_info
    if any(info.dims is None for info in returned.fields):  # a size that no operand states
        return None
    results = tuple(["values" if _first(v) == group.total else "rows" for v in outputs])
    attributes = {"row": text, "kinds": kinds, "results": results}
    call = Call(rows, (Tuple(tuple(operands)), group.starts, group.limits), attributes)
    infos = TupleStructInfo(tuple([v.struct_info for v in outputs]))
    call = replace(call, struct_info=infos)
    if not is_compiled(call):
        return None
    var = Var("rows", infos)
    return [
        VarBinding(var, call),
        *[VarBinding(v, TupleGetItem(var, k, v.struct_info)) for k, v in enumerate(outputs)],
    ]


class _NotOneRow(Exception):
    """A call that is not one of each row by itself."""


def _row_function(group: RowGroup, outputs: list[Var]) -> tuple[Function, list[Expr], Any]:
    """Returns the function of one row, its operands and their kinds."""
    one, length = dims.sym("one"), dims.sym("length")
    members = {b.var for b in group.members}
    operands: dict[Expr, Var] = {}
    kinds: list[str] = []

    def kind_of(info: Any) -> str:
        first = info.dims[0] if info.dims else None
        return "values" if first == group.total else "rows" if first == group.count else "shared"

    for binding in group.members:
        call: Any = binding.value
        args = call.args[:1] if call.op.name.startswith(SEGMENT) else call.args
        for arg in args:
            if isinstance(arg, PrimValue | ShapeExpr) or arg in members or arg in operands:
                continue
            info: Any = arg.struct_info
            if type(getattr(info, "dims", None)) is not tuple or info.dtype is None:
                raise _NotOneRow
            kind = kind_of(info)
            if kind != "shared" and any([d in (group.total, group.count) for d in info.dims[1:]]):
                raise _NotOneRow
            first = {"values": (one, length), "rows": (one,)}.get(kind, info.dims[:1])
            sizes = (*first, *info.dims[1:])
            operands[arg] = Var(f"x{len(operands)}", TensorStructInfo(sizes, info.dtype))
            kinds.append(kind)
    if "values" not in kinds:
        raise _NotOneRow
    params = list(operands.values())
    builder = BlockBuilder()
    with builder.function("main", params):
        values: dict[Expr, Expr] = dict(operands)
        for binding in group.members:
            info = binding.var.struct_info
            first = (one, length) if info.dims[0] == group.total else (one,)
            value = _of_row(binding, values, first)
            row: Any = builder.emit(value)
            if row.struct_info.dims != (*first, *info.dims[1:]):
                raise _NotOneRow
            values[binding.var] = row
        builder.emit_func_output(Tuple(tuple([values[v] for v in outputs])))
    return builder.finished("main"), list(operands), tuple(kinds)


def _of_row(binding: Any, values: dict[Expr, Expr], first: tuple[Dim, ...]) -> Expr:
    """Returns the value of a binding for one row; `first` are the axes of the row."""
    call = binding.value
    name, definition = call.op.name, call.op.definition
    inner = binding.var.struct_info.dims[1:]
    if name == REPEAT:
        return broadcast_to(expand_dims(values[call.args[0]], 1), ShapeExpr((*first, *inner)))
    if name.startswith(SEGMENT):
        return definition.hooks["row"](values[call.args[0]], axis=1)  # type: ignore[no-any-return]
    if name == "reshape":
        return reshape(values[call.args[0]], ShapeExpr((*first, *inner)))
    if any(
        [isinstance(a, ShapeExpr) or (isinstance(a, PrimValue) and dims_of(a)) for a in call.args]
    ):
        raise _NotOneRow
    if _has_axes(definition):
        raise _NotOneRow
    args = tuple([values.get(arg, arg) for arg in call.args])
    return replace(call, args=args, struct_info=None)  # type: ignore[no-any-return]


def dims_of(value: PrimValue) -> Any:
    """Returns the symbols of a scalar."""
    return dims.syms(value.value) if isinstance(value.value, dims.Poly) else ()


def _has_axes(definition: Any) -> bool:
    return any(["ax" in getattr(p.kind, "expected", "") for p in definition.signature.parameters])


def with_row_groups(module: IRModule, is_compiled: Any) -> IRModule:
    """Returns a module whose ops on the same rows are grouped."""
    functions: dict[str, Any] = dict(module.functions)
    for name, function in module.functions.items():
        if isinstance(function, Function):
            functions[name] = _grouped(function, is_compiled)
    return module.with_functions(functions)


def _grouped(function: Function, is_compiled: Any) -> Function:
    blocks = []
    for k, block in enumerate(function.body.blocks):
        later = function.body.blocks[k + 1 :]
        used = {v for b in later for binding in b.bindings for v in free_vars(binding.value)}
        used |= set(free_vars(function.body.body))
        bindings = GroupBuilder(block.bindings, used, is_compiled).result()
        blocks.append(replace(block, bindings=tuple(bindings)))
    return replace(function, body=replace(function.body, blocks=tuple(blocks)))

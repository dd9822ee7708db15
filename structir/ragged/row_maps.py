"""Replaces maps over the rows of ragged tensors: by ops on ragged tensors where these exist, else
by one call that computes a function for every row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from structir.analysis.closures import with_captured
from structir.analysis.loop_view import LoopView
from structir.analysis.substitution import Substitution
from structir.analysis.variables import free_vars, walk_values
from structir.batching.combinators import expanded
from structir.batching.expansion_values import without_dataflow, without_unused_closures
from structir.build import BlockBuilder
from structir.errors import DiagnosticError
from structir.ir import dims
from structir.ir.axes import Ragged
from structir.ir.bodies import bindings_of
from structir.ir.dims import Dim
from structir.ir.expr import (
    Binding,
    BindingBlock,
    Call,
    Expr,
    Function,
    GlobalVar,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.op import Op
from structir.ir.struct_info import (
    FuncStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.opdef.batched_op import apply
from structir.ops.ragged import (
    check_ragged,
    from_values,
    has_ragged_axis,
    row_limits,
    row_starts,
    same_rows,
    values,
)
from structir.ragged.lowering import RaggedLowering
from structir.ragged.row_op import row_call

BODY = "row_body"  # the name of the mapped function in the module of one row


def with_row_maps(module: IRModule) -> IRModule:
    """Returns a module whose maps over the rows of ragged tensors are replaced."""
    functions: dict[str, Any] = dict(module.functions)
    for name, function in module.functions.items():
        if isinstance(function, Function) and any(
            [_maps_rows(binding.value) for binding in bindings_of(function)]
        ):
            functions[name] = _RowMaps(module).function(function)
    remaining = {
        value.name
        for function in functions.values()
        if isinstance(function, Function)
        for binding in bindings_of(function)
        for value in getattr(binding.value, "args", ())
        if isinstance(value, GlobalVar)
    }
    return module.with_functions(
        {n: f for n, f in functions.items() if n in remaining or not _is_row_body(module, n)}
    )


def _maps_rows(value: Expr) -> bool:
    """Whether a value is a map of a function over ragged operands."""
    if not isinstance(value, Call) or not isinstance(value.op, Op):
        return False
    if "maps" not in getattr(value.op.definition, "hooks", ()):
        return False
    return any([has_ragged_axis(arg.struct_info) for arg in value.args[1:]])


def _is_row_body(module: IRModule, name: str) -> bool:
    """Whether a private function is mapped over rows."""
    function = module.functions[name]
    if not isinstance(function, Function) or not function.attrs.get("private"):
        return False
    calls = [
        b.value
        for f in module.functions.values()
        if isinstance(f, Function)
        for b in bindings_of(f)
        if _maps_rows(b.value)
    ]
    return any([getattr(call.args[0], "name", None) == name for call in calls])  # type: ignore[attr-defined]


class OfOneRow(Substitution):
    """Rebuilds a function with the length of a row in place of each ragged axis."""

    def __init__(self, length: Dim) -> None:
        super().__init__(fresh=True)
        self.length = length

    def info(self, info: StructInfo) -> StructInfo:
        """Returns a StructInfo with dense axes."""
        return super().info(self._dense(info))

    def _dense(self, info: StructInfo) -> StructInfo:
        if isinstance(info, TupleStructInfo):
            return TupleStructInfo(tuple([self._dense(f) for f in info.fields]), info.names)
        if isinstance(info, FuncStructInfo) or not has_ragged_axis(info):
            return info
        ragged: Any = info
        sizes = tuple([self.length if isinstance(a, Ragged) else a for a in ragged.axes])
        return TensorStructInfo(sizes, ragged.element)


@attrs.frozen(eq=False)
class _RowMap:
    """A map over rows: the program of one row, whose parameters are the operands by their kinds."""

    function: Function
    others: Mapping[str, Any]  # the functions that it calls
    operands: Sequence[Expr]
    kinds: tuple[str, ...]
    one: Dim
    length: Dim


def closures_of(function: Function) -> dict[Expr, Function]:
    """Returns the closures of a function by their variables, each with those that it calls."""
    closures = {b.var: b.value for b in bindings_of(function) if isinstance(b.value, Function)}
    return {var: _with_closures(closure, closures) for var, closure in closures.items()}


def body_of(module: IRModule, closures: Mapping[Expr, Function], callee: Expr) -> Function | None:
    """Returns the function that a loop applies; None where it is unknown."""
    if callee in closures:
        return closures[callee]
    function = module.functions.get(getattr(callee, "name", ""))
    return function if isinstance(function, Function) else None


def _with_closures(function: Function, closures: Mapping[Var, Function]) -> Function:
    """Returns a function with copies of the closures that it calls as its own."""
    called, todo = set[Expr](), [function]
    while todo:
        new = [v for v in free_vars(todo.pop()) if v in closures and v not in called]
        called.update(new)
        todo += [closures[v] for v in new]
    if not called:
        return function
    own = BindingBlock(tuple([VarBinding(v, f) for v, f in closures.items() if v in called]))
    return replace(function, body=replace(function.body, blocks=(own, *function.body.blocks)))


class _RowMaps:
    """Rewrites the maps of one function."""

    def __init__(self, module: IRModule) -> None:
        self.module = module
        self.closures: dict[Expr, Function] = {}

    def function(self, function: Function) -> Function:
        """Returns a function without maps over rows."""
        function = without_dataflow(function)
        self.closures = closures_of(function)
        blocks = []
        for block in function.body.blocks:
            new = [each for binding in block.bindings for each in self._binding(binding)]
            blocks.append(replace(block, bindings=tuple(new)))
        body = replace(function.body, blocks=tuple(blocks))
        return without_unused_closures(replace(function, body=body))

    def _binding(self, binding: Binding) -> Sequence[Binding]:
        call: Any = binding.value
        row_map = self._row_map(call) if _maps_rows(call) else None
        if row_map is None:
            return (binding,)
        for emit in (self._as_ops, self._row_by_row):
            bindings = self._emitted(row_map, emit, binding)
            if bindings is not None:
                return bindings
        return (binding,)

    def _emitted(
        self, row_map: _RowMap, emit: Callable[..., Expr], binding: Binding
    ) -> Sequence[Binding] | None:
        """Returns the bindings that an emitter emits and that can be lowered; None otherwise."""
        builder = BlockBuilder(self.module)
        params = [x for x in dict.fromkeys(row_map.operands) if isinstance(x, Var)]
        try:
            with builder.function("rows", params):
                builder.emit_func_output(emit(builder, row_map))
            function = builder.finished("rows")
            RaggedLowering(self.module).function("rows", function)
        except DiagnosticError:
            return None
        last = VarBinding(binding.var, function.body.body, binding.span)
        return (*function.body.bindings(), last)

    # ---- the program of one row

    def _row_map(self, call: Call) -> _RowMap | None:
        """Returns the program of one row; None for maps over other axes than that of the rows."""
        view: LoopView = call.op.definition.hooks["loop"](call)  # type: ignore[attr-defined]
        body = body_of(self.module, self.closures, view.body)
        operands = [call.args[s.path[0]] for s in view.operands]
        axes = [s.axes for s in view.operands]
        if body is None or view.stacked != (0,) or any(a not in ((), (0,)) for a in axes):
            return None
        one, length = dims.sym("one"), dims.sym("length")
        captured = free_vars(body)
        axes += [()] * len(captured)
        operands += captured
        kinds, params = list[str](), list[Var]()
        for k, (operand, own) in enumerate(zip(operands, axes, strict=True)):
            row = _of_row(operand.struct_info, own, one, length)
            if row is None:
                return None
            kinds.append(row[0])
            params.append(Var(f"x{k}", row[1]))
        functions = self._program(with_captured(body, captured, ()), params, axes, length)
        if functions is None or "values" not in kinds:
            return None
        function = functions.pop("main")
        return _RowMap(function, functions, operands, tuple(kinds), one, length)

    def _program(
        self, body: Function, params: Sequence[Var], axes: Sequence[Any], length: Dim
    ) -> dict[str, Any] | None:
        """Returns the function of one row, as batched ops, and those that it calls, by name; None
        if it is invalid."""
        body = OfOneRow(length).function(body)
        others = {n: f for n, f in self.module.functions.items() if n != "main"}
        builder = BlockBuilder(IRModule({**others, BODY: body}))
        in_axes = tuple([0 if own else None for own in axes])
        try:
            with builder.function("main", params):
                mapped = apply("vmap", builder.global_var(BODY), *params, in_axes=in_axes)
                builder.emit_func_output(builder.emit(mapped))
            module = IRModule({**others, BODY: body, "main": builder.finished("main")})
            return _called(expanded(module).functions, "main")
        except DiagnosticError:
            return None

    # ---- its two forms

    def _as_ops(self, builder: BlockBuilder, row_map: _RowMap) -> Expr:
        """Emits the ops of one row on the ragged tensors."""
        known: dict[Any, Any] = dict(zip(row_map.function.params, row_map.operands, strict=True))
        count = next(
            x.struct_info.axes[0]
            for x, kind in zip(row_map.operands, row_map.kinds, strict=True)
            if kind == "values"
        )
        copier = Substitution(known, {dims.as_sym(row_map.one): count})
        for binding in row_map.function.body.bindings():
            value = copier.part(binding.value)
            if isinstance(value, Call):
                value = replace(value, struct_info=None)
            copier.variables[binding.var] = builder.emit(value)
        return copier.part(row_map.function.body.body)  # type: ignore[no-any-return]

    def _row_by_row(self, builder: BlockBuilder, row_map: _RowMap) -> Expr:
        """Emits a call that computes the function for every row."""
        emit = builder.emit
        ragged = [x for x, k in zip(row_map.operands, row_map.kinds, strict=True) if k == "values"]
        starts, limits = emit(row_starts(ragged[0])), emit(row_limits(ragged[0]))
        total = dims.sym("t")

        def plain(x: Expr, kind: str) -> Expr:
            if kind != "values":
                return x
            flat = emit(values(x))
            if x is not ragged[0]:
                own = row_starts(x), row_limits(x)
                flat = emit(same_rows(flat, starts, limits, *map(emit, own), where="map"))
            info: Any = x.struct_info
            cast = TensorStructInfo((total, *info.axes[2:]), info.element)
            return builder.match_cast(flat, cast)

        operands = [plain(*each) for each in zip(row_map.operands, row_map.kinds, strict=True)]
        call = row_call(row_map.function, operands, row_map.kinds, (starts, limits), row_map.others)
        results, fields = emit(call), list[Expr]()
        for k, kind in enumerate(call.attrs["results"]):
            field = emit(TupleGetItem(results, k))
            fields.append(emit(from_values(field, starts, limits)) if kind == "values" else field)
        is_tuple = isinstance(row_map.function.ret_struct_info, TupleStructInfo)
        return emit(Tuple(tuple(fields))) if is_tuple else fields[0]


def _called(functions: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns a function of a module, and those that it calls."""
    called, todo = dict[str, Any](), [name]
    while todo:
        name = todo.pop()
        if name in functions and name not in called:
            called[name] = functions[name]
            todo += [v.name for v in walk_values(called[name]) if isinstance(v, GlobalVar)]
    return called


def _of_row(
    info: Any, axes: Sequence[int], one: Dim, length: Dim
) -> tuple[str, TensorStructInfo] | None:
    """Returns the kind of an operand and its StructInfo in the program of one row; None if it has
    none."""
    if not isinstance(info, TensorStructInfo):
        return None
    if has_ragged_axis(info):
        if not axes or check_ragged(info) != 1:
            return None
        return "values", TensorStructInfo((one, length, *info.axes[2:]), info.element)  # type: ignore[index]
    if not isinstance(info.dims, tuple):
        return None
    return (
        ("rows", TensorStructInfo((one, *info.dims[1:]), info.element))
        if axes
        else ("shared", info)
    )

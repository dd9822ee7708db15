"""Replaces folds and scans over the rows of ragged tensors by loops over the ends of rows.

A step receives the start and the limit of its row, and reads the values between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from structir.analysis.internal_functions import PRIVATE
from structir.analysis.loop_view import LoopView, slice_info
from structir.batching.candidates import with_operand
from structir.batching.combinators import expanded, is_expandable, mentioned
from structir.batching.expansion_values import without_dataflow, without_unused_closures
from structir.build import BlockBuilder
from structir.errors import DiagnosticError
from structir.ir.axes import Ragged
from structir.ir.bodies import bindings_of
from structir.ir.dims import sym
from structir.ir.expr import (
    Binding,
    Call,
    Expr,
    Function,
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
from structir.ir.struct_info import ShapeStructInfo, TensorStructInfo, TupleStructInfo
from structir.ops.broadcast import add, subtract
from structir.ops.create import arange
from structir.ops.indexing import take
from structir.ops.joined import stack
from structir.ops.ragged import row_limits, row_starts, values
from structir.ops.reshape import reshape
from structir.ops.shapes import tensor_to_shape
from structir.ragged.row_maps import OfOneRow, body_of, closures_of

Value = Expr | tuple["Value", ...]


def with_row_folds(module: IRModule) -> IRModule:
    """Returns a module whose folds and scans over the rows of ragged tensors are replaced."""
    functions: dict[str, Any] = dict(module.functions)
    for name, function in module.functions.items():
        if isinstance(function, Function) and any(map(_is_fold, bindings_of(function))):
            functions[name] = _of_function(module, function)
    for name in mentioned(module.functions) - mentioned(functions):
        if functions[name].attrs.get(PRIVATE):
            del functions[name]  # its parameter is a row, not a ragged tensor
    rebuilt = module.with_functions(functions)
    # steps as functions of the module: the values that they read are operands, with gradients
    return module if rebuilt is module else expanded(rebuilt, is_expandable)


def _of_function(module: IRModule, function: Function) -> Function:
    function = without_dataflow(function)
    closures = closures_of(function)
    blocks = []
    for block in function.body.blocks:
        new = [each for b in block.bindings for each in (_unfolded(module, b, closures) or (b,))]
        blocks.append(replace(block, bindings=tuple(new)))
    body = replace(function.body, blocks=tuple(blocks))
    return without_unused_closures(replace(function, body=body))


def _is_fold(binding: Binding) -> bool:
    """Whether a binding carries states over the rows of a ragged tensor."""
    call: Any = binding.value
    if not isinstance(call, Call) or not isinstance(call.op, Op):
        return False
    view = getattr(call.op.definition, "hooks", {}).get("loop")
    loop: LoopView | None = None if view is None else view(call)
    if loop is None or not loop.states:
        return False
    return any([s.axes and any(map(_is_row_tensor, _leaves(s.of(call)))) for s in loop.operands])


def _leaves(info: Any) -> Iterator[Any]:
    for field in info.fields if isinstance(info, TupleStructInfo) else ():
        yield from _leaves(field)
    if not isinstance(info, TupleStructInfo):
        yield info


def _is_row_tensor(info: Any) -> bool:
    """Whether a slice along the first axis is one row."""
    ragged = [isinstance(axis, Ragged) for axis in getattr(info, "axes", None) or ()]
    return ragged[:2] == [False, True] and not any(ragged[2:])


def _unfolded(
    module: IRModule, binding: Binding, closures: Mapping[Expr, Function]
) -> Sequence[Binding] | None:
    """Returns the bindings of a loop over the ends of rows; None for others."""
    if not _is_fold(binding):
        return None
    call: Any = binding.value
    body = body_of(module, closures, call.op.definition.hooks["loop"](call).body)
    if body is None:
        return None
    builder = BlockBuilder(module)
    try:
        with builder.function("rows", []):
            builder.emit_func_output(_RowFold(builder, call, body).result())
    except DiagnosticError:  # the call is an error of its op
        return None
    function = builder.finished("rows")
    return (*function.body.bindings(), VarBinding(binding.var, function.body.body, binding.span))


class _RowFold:
    """Emits one loop."""

    def __init__(self, builder: BlockBuilder, call: Call, body: Function) -> None:
        self.builder, self.call, self.body = builder, call, body
        self.view: LoopView = call.op.definition.hooks["loop"](call)  # type: ignore[attr-defined]
        self.values: dict[Expr, Expr] = {}  # of the ragged operands

    def result(self) -> Expr:
        """Returns the loop with the ends of rows as operands."""
        args, sliced = list(self.call.args), list[Value]()
        for operand in self.view.operands:
            first, *path = operand.path
            value: Expr = self.call.args[first]
            for member in path:
                value = self.field(value, member)
            rows = self.with_ends(value) if operand.axes else value
            if rows is not value:
                whole = args[first]
                if path and not isinstance(whole, Tuple):
                    count = len(whole.struct_info.fields)
                    whole = Tuple(tuple([self.field(whole, k) for k in range(count)]))
                args[first] = with_operand(whole, tuple(path), rows)
            sliced.append(value)
        args[0] = self.step(args, sliced)
        loop = replace(self.call, args=tuple(args), struct_info=None)
        definition: Any = self.call.op.definition  # type: ignore[attr-defined]
        return self.builder.emit(replace(loop, struct_info=definition.deduce(loop)))

    def field(self, value: Expr, member: int) -> Expr:
        """Returns a field of a tuple."""
        if isinstance(value, Tuple):
            return value.fields[member]
        return self.builder.emit(TupleGetItem(value, member))

    def with_ends(self, value: Expr) -> Expr:
        """Returns an operand with the start and the limit of each row in place of its values."""
        info: Any = value.struct_info
        if isinstance(info, TupleStructInfo):
            fields = [self.field(value, k) for k in range(len(info.fields))]
            changed = [self.with_ends(field) for field in fields]
            same = all(new is old for new, old in zip(changed, fields, strict=True))
            return value if same else Tuple(tuple(changed))
        if not _is_row_tensor(info):
            return value
        emit = self.builder.emit
        cast = TensorStructInfo((sym("t"), *info.axes[2:]), info.element)
        self.values[value] = self.builder.match_cast(emit(values(value)), cast)
        return emit(stack((emit(row_starts(value)), emit(row_limits(value))), axis=1))

    def step(self, args: Sequence[Expr], sliced: Sequence[Value]) -> Expr:
        """Returns the function of one step, with the ends of its row as a parameter."""
        replaced = replace(self.call, args=tuple(args))
        infos = [slice_info(s.of(replaced), s.axes) for s in self.view.operands]  # type: ignore[arg-type]
        params = [Var(p.name, info) for p, info in zip(self.body.params, infos, strict=True)]
        body = self.builder.emit(OfOneRow(sym("length")).function(self.body), "of_row")

        def result() -> Expr:
            rows = [self.row(*pair) for pair in zip(sliced, params, strict=True)]
            return self.builder.emit(Call(body, tuple(rows)))

        return self.builder.local_function(params, result, "step")

    def row(self, value: Any, given: Expr) -> Expr:
        """Returns an argument of the function for one row."""
        if isinstance(value, Tuple):
            pairs = enumerate(value.fields)
            return Tuple(tuple([self.row(field, self.field(given, k)) for k, field in pairs]))
        if value not in self.values:
            return given
        emit = self.builder.emit
        ends = [emit(take(given, PrimValue(k), axis=0)) for k in (0, 1)]
        length = emit(reshape(emit(subtract(ends[1], ends[0])), ShapeExpr((1,))))
        size = sym("length")
        self.builder.match_cast(emit(tensor_to_shape(length)), ShapeStructInfo((size,)))
        index = emit(add(emit(arange(PrimValue(size), dtype="int64")), ends[0]))
        return emit(take(self.values[value], index, axis=0))

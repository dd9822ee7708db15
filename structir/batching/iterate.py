"""The batched copy of `loop.iterate`: loops with a trip count or a condition."""

from __future__ import annotations

from typing import Any

from structir.batching.scope import BatchedScope, Flags, all_mapped, any_mapped, apply
from structir.errors import Diagnostic, DiagnosticError
from structir.ir.expr import Call, Expr, ShapeExpr, Tuple, Var
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.opdef.batched_op import with_axis

FLAG = TensorStructInfo((), "bool")


def _unsized(info: Any) -> StructInfo:
    """Returns a StructInfo without symbolic sizes, which a local function would bind."""
    if isinstance(info.dims, tuple) and all([isinstance(d, int) for d in info.dims]):
        plain: StructInfo = info
        return plain
    return TensorStructInfo(None, info.dtype, info.ndim)


def _any(scope: BatchedScope, going: Expr) -> Expr:
    """Returns whether one element is true."""
    wide = scope.emit(apply("astype", going, "int8"))
    return scope.emit(apply("astype", scope.emit(apply("max", wide, axis=[0])), "bool"))


def iterate(scope: BatchedScope, call: Any) -> tuple[Expr, Flags]:
    """Returns a loop over carried values with the axis.

    With a condition it runs while the condition holds for one index of the axis; the values of the
    others do not change.
    """
    body_var, trips, condition, carried, empty, dtypes = call.args
    body = scope.closures[body_var]
    starts = [scope.mapped(value, flag) for value, flag in scope._parts(carried)]
    going, flag = scope.operand(condition)
    is_while = not isinstance(condition, Tuple)
    going = scope.mapped(going, flag) if is_while else going
    trip_count, trip_flag = scope.operand(trips)
    if any_mapped(trip_flag):
        raise _error(call, "the trip count depends on the mapped axis")
    if is_while and empty.fields:
        raise _error(call, "a loop with a condition stacks outputs")
    values = [*starts, going] if is_while else starts
    infos = [with_axis(scope.copier.info(p.struct_info), scope.size) for p in body.params[2:]]
    infos += [going.struct_info] if is_while else []
    params = [Var("step", body.params[0].struct_info), Var("condition", FLAG)]
    params += [Var(f"carried_{k}", _unsized(info)) for k, info in enumerate(infos)]

    def build() -> Expr:
        inner = scope._inner()
        before: list[Expr] = [
            scope.builder.match_cast(p, v.struct_info, p.name)
            if p.struct_info != v.struct_info
            else p
            for p, v in zip(params[2:], values, strict=True)
        ]
        inner.define(body.params[0], params[0], False)
        inner.define(body.params[1], params[1], False)
        for param, value in zip(body.params[2:], before, strict=False):
            inner.define(param, value, True)
        result, flags = inner.run(body.body)
        parts = flags if isinstance(flags, tuple) else (flags,) * len(inner.fields(result))
        fields = inner.fields(result)
        next_going, next_flag = fields[0], parts[0]
        after = [inner.mapped(v, f) for v, f in zip(fields[1:], parts[1:], strict=True)]
        if not is_while:
            if next_flag is True:
                raise _error(call, "the condition depends on the mapped axis")
            return Tuple((next_going, *after))
        was_going = before[-1]
        selected = [
            inner.select(was_going, new, old) for new, old in zip(after, before[:-1], strict=True)
        ]
        still = inner.emit(apply("logical_and", was_going, inner.mapped(next_going, next_flag)))
        return Tuple((_any(inner, still), *selected, still))

    function = scope.builder.local_function(params, build, f"{body_var.name}_batched")
    sizes = [scope.copier.part(shape) for shape in empty.fields]
    stacked = Tuple(tuple([ShapeExpr((0, scope.size, *shape.dims[1:])) for shape in sizes]))
    outputs = call.sinfo_args[0].fields[len(starts) :]
    stacks = [TensorStructInfo(None, o.dtype, o.ndim + 1) for o in outputs]
    result_info = TupleStructInfo((*[_unsized(v.struct_info) for v in values], *stacks))
    start = _any(scope, going) if is_while else going
    operands = (function, trip_count, start, Tuple(tuple(values)), stacked, dtypes)
    result = scope.emit(Call(call.op, operands, call.attrs, (result_info,), None, call.span))
    fields = scope.fields(result)
    casts = [
        scope.builder.match_cast(f, v.struct_info) if f.struct_info != v.struct_info else f
        for f, v in zip(fields[: len(starts)], starts, strict=True)
    ]
    moved = [scope._moved(field) for field in fields[len(values) :]]
    final = Tuple((*casts, *moved))
    return final, all_mapped(final.struct_info)


def _error(call: Call, reason: str) -> DiagnosticError:
    message = f"cannot be mapped by vmap: {reason}"
    return DiagnosticError(Diagnostic(message, call.span, "loop.iterate", code="E1111"))

"""The batched copy of `loop.iterate`: loops with a trip count or a condition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from structir.batching.scope import BatchedScope, Flags, all_mapped, any_mapped
from structir.errors import Diagnostic, DiagnosticError
from structir.ir.expr import Call, Expr, ShapeExpr, Tuple, Var
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.opdef.batched_op import apply

FLAG = TensorStructInfo((), "bool")


def _unsized(info: Any) -> StructInfo:
    """Returns a StructInfo without symbolic sizes, which a local function would bind."""
    if isinstance(info.dims, tuple) and all([isinstance(d, int) for d in info.dims]):
        plain: StructInfo = info
        return plain
    return TensorStructInfo(None, info.element, info.ndim)


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
    starts = [scope.mapped(value, flag) for value, flag in scope.parts(carried)]
    going, flag = scope.operand(condition)
    is_while = not isinstance(condition, Tuple)
    going = scope.mapped(going, flag) if is_while else going
    trip_count, trip_flag = scope.operand(trips)
    if any_mapped(trip_flag):
        raise _error(call, "the trip count depends on the mapped axis")
    if is_while and empty.fields:
        raise _error(call, "a loop with a condition stacks outputs")
    values = [*starts, going] if is_while else starts
    function = _LoopBody(scope, call, values, is_while).function(f"{body_var.name}_batched")
    sizes = [scope.copier.part(shape) for shape in empty.fields]
    stacked = Tuple(tuple([ShapeExpr((0, scope.size, *shape.dims[1:])) for shape in sizes]))
    outputs = call.sinfo_args[0].fields[len(starts) :]
    stacks = [TensorStructInfo(None, o.element, o.ndim + 1) for o in outputs]
    result_info = TupleStructInfo((*[_unsized(v.struct_info) for v in values], *stacks))
    start = _any(scope, going) if is_while else going
    operands = (function, trip_count, start, Tuple(tuple(values)), stacked, dtypes)
    result = scope.emit(Call(call.op, operands, call.attrs, (result_info,), None, call.span))
    fields = scope.fields(result)
    finals = _cast(scope, fields[: len(starts)], starts)
    final = Tuple((*finals, *[scope.moved(field) for field in fields[len(values) :]]))
    return final, all_mapped(final.struct_info)


def _cast(scope: BatchedScope, values: Sequence[Expr], like: Sequence[Expr]) -> list[Expr]:
    """Returns values with the StructInfo of others."""
    return [
        scope.builder.match_cast(v, o.struct_info) if v.struct_info != o.struct_info else v
        for v, o in zip(values, like, strict=True)
    ]


@attrs.frozen(eq=False)
class _LoopBody:
    """The body of a batched loop; the last value of a loop with a condition is the condition."""

    scope: BatchedScope
    call: Any
    values: list[Expr]
    is_while: bool

    def function(self, name: str) -> Var:
        """Binds the body as a local function."""
        infos = [_unsized(value.struct_info) for value in self.values]
        params = [Var("step", TensorStructInfo((), "int64")), Var("condition", FLAG)]
        params += [Var(f"carried_{k}", info) for k, info in enumerate(infos)]
        return self.scope.builder.local_function(params, lambda: self._step(params), name)

    def _step(self, params: list[Var]) -> Expr:
        inner, body = self.scope.inner(), self.scope.closures[self.call.args[0]]
        before = _cast(self.scope, params[2:], self.values)
        inner.define(body.params[0], params[0], False)
        inner.define(body.params[1], params[1], False)
        for param, value in zip(body.params[2:], before, strict=False):
            inner.define(param, value, True)
        (going, flag), *results = inner.parts_of(*inner.run(body.body))
        after = [inner.mapped(value, value_flag) for value, value_flag in results]
        if not self.is_while:
            if flag is True:
                raise _error(self.call, "the condition depends on the mapped axis")
            return Tuple((going, *after))
        was_going = before[-1]
        pairs = zip(after, before[:-1], strict=True)
        selected = [inner.select(was_going, new, old) for new, old in pairs]
        still = inner.emit(apply("logical_and", was_going, inner.mapped(going, flag)))
        return Tuple((_any(inner, still), *selected, still))


def _error(call: Call, reason: str) -> DiagnosticError:
    message = f"cannot be mapped by vmap: {reason}"
    return DiagnosticError(Diagnostic(message, call.span, "loop.iterate", code="E1111"))

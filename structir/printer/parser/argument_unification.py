"""Unifies the arguments of calls with the callee's parameters in functions with `refine=`.

Inference completes such a function, so an argument of unknown rank or dtype is no mismatch: a
match_cast to the parameter's rank and dtype states the equation, and a run checks it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from structir.analysis.calls import undecided_params
from structir.analysis.deduction import deduce
from structir.analysis.loop_view import LoopView, Sliced, slice_info, stacked_info
from structir.ir.expr import Call, Expr, Tuple
from structir.ir.node import replace
from structir.ir.struct_info import FuncStructInfo, StructInfo
from structir.printer.parser.context import Context


def unify_arguments(context: Context, callee: Expr, args: Sequence[Expr]) -> Sequence[Expr]:
    """Returns the arguments of a call, with a match_cast of each that is not known to fit."""
    info = callee.struct_info
    if not context.unifies or type(info) is not FuncStructInfo:
        return args
    params = undecided_params(info, [deduce(arg) for arg in args])
    return [_cast(context, arg, params.get(index)) for index, arg in enumerate(args)]


def unify_loop_arguments(
    context: Context, loop: Callable[[Call], LoopView], call: Call
) -> tuple[Expr, ...]:
    """Returns the arguments of a call that applies a function to slices of operands."""
    view = loop(call)
    info = view.body.struct_info
    values = [_value_at(call, sliced) for sliced in view.operands]
    if type(info) is not FuncStructInfo or None in values:
        return call.args
    infos = [slice_info(deduce(v), s.axes) for v, s in zip(values, view.operands, strict=True)]  # type: ignore[arg-type]
    args = list(call.args)
    for index, param in undecided_params(info, infos).items():
        sliced, value = view.operands[index], values[index]
        expected = stacked_info(param, sliced.axes, [None] * len(sliced.axes))
        checked = _cast(context, value, expected)  # type: ignore[arg-type]
        args[sliced.path[0]] = _with_member(args[sliced.path[0]], sliced.path[1:], checked)
    return tuple(args)


def _value_at(call: Call, sliced: Sliced) -> Expr | None:
    """Returns the operand of a parameter; None for a field of a tuple that is not written out."""
    value = call.args[sliced.path[0]]
    for member in sliced.path[1:]:
        if not isinstance(value, Tuple):
            return None
        value = value.fields[member]
    return value


def _with_member(arg: Expr, members: Sequence[int], value: Expr) -> Expr:
    if not members or not isinstance(arg, Tuple):
        return value
    fields = [value if k == members[0] else field for k, field in enumerate(arg.fields)]
    return replace(arg, fields=tuple(fields))


def _cast(context: Context, value: Expr, info: StructInfo | None) -> Expr:
    """Returns a value, bound by a match_cast to a StructInfo if there is one."""
    if info is None:
        return value
    return context.emit_cast(context.atom(value, None), info, value.span)

"""Unifies the arguments of calls with the callee's parameters in functions with `refine=`.

Inference completes such a function, so an argument of unknown rank or dtype is no mismatch: a
match_cast to the parameter's rank and dtype states the equation, and a run checks it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from structir.analysis.axes import axes_of, tensor
from structir.analysis.calls import undecided_params
from structir.analysis.deduction import deduce
from structir.ir.axes import AnySize, RowVar
from structir.ir.expr import Call, Expr, Tuple
from structir.ir.node import replace
from structir.ir.struct_info import FuncStructInfo, StructInfo, TensorStructInfo
from structir.printer.parser.context import Context


def unify_arguments(context: Context, callee: Expr, args: Sequence[Expr]) -> Sequence[Expr]:
    """Returns the arguments of a call, with a match_cast of each that is not known to fit."""
    info = callee.struct_info
    if not context.unifies or type(info) is not FuncStructInfo:
        return args
    params = undecided_params(info, [deduce(arg) for arg in args])
    return [_cast(context, arg, params.get(index)) for index, arg in enumerate(args)]


def unify_loop_arguments(
    context: Context, loop: Callable[[Call], tuple[Expr, int]], call: Call
) -> tuple[Expr, ...]:
    """Returns the arguments of a loop: body, states, the tensor that it reads, captured values."""
    body, count = loop(call)
    info, groups = body.struct_info, call.args[1:2] + call.args[3:]
    if type(info) is not FuncStructInfo or not all(type(group) is Tuple for group in groups):
        return call.args
    values = [field for group in groups for field in group.fields]  # type: ignore[attr-defined]
    infos = [deduce(value) for value in values]
    infos.insert(count, _element(deduce(call.args[2])))
    params = undecided_params(info, infos)
    elements = _sequence(params.pop(count, None))
    params = {index - (index > count): param for index, param in params.items()}
    checked = [_cast(context, value, params.get(index)) for index, value in enumerate(values)]
    x = _cast(context, call.args[2], elements)
    rebuilt = [replace(groups[0], fields=tuple(checked[:count]))]
    rebuilt += [replace(group, fields=tuple(checked[count:])) for group in groups[1:]]
    return (body, rebuilt[0], x, *rebuilt[1:])


def _element(info: StructInfo) -> StructInfo:
    """Returns the StructInfo of a slice along the first axis."""
    axes = axes_of(info) if isinstance(info, TensorStructInfo) else None
    if not axes or type(axes[0]) is RowVar:
        return TensorStructInfo(dtype=getattr(info, "element", None))
    return tensor(axes[1:], info.element)  # type: ignore[attr-defined]


def _sequence(element: StructInfo | None) -> StructInfo | None:
    """Returns the StructInfo of a tensor whose slices have this one."""
    if not isinstance(element, TensorStructInfo):
        return None
    if element.dims is None and element.axes is None:
        rank = None if element.ndim is None else element.ndim + 1
        return TensorStructInfo(None, element.element, rank)
    return tensor((AnySize(), *(axes_of(element) or ())), element.element)


def _cast(context: Context, value: Expr, info: StructInfo | None) -> Expr:
    """Returns a value, bound by a match_cast to a StructInfo if there is one."""
    if info is None:
        return value
    return context.emit_cast(context.atom(value, None), info, value.span)

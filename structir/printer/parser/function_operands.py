"""Parses functions that are written as operands: `lambda a, b: a + b`, and bare ops, `R.name`.

They become nested functions, whose parameters are the slices that the call passes.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from structir.analysis.axes import tensor
from structir.analysis.loop_view import LoopView, slice_info
from structir.ir.axes import AnySize, Labelled
from structir.ir.expr import Expr, Var
from structir.ir.node import replace
from structir.ir.op import Op, find_op
from structir.ir.struct_info import (
    OBJECT,
    FuncStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.printer.parser.context import Context
from structir.printer.parser.functions import FunctionSignature, read_function
from structir.printer.parser.values import argument, path_of

COMBINATOR = "combinator"  # the hook of ops that apply a function to slices
NAMES = "abcdefghijkl"  # parameters of the function of a bare op


def is_function_operand(op: Op, node: ast.expr) -> bool:
    """Whether an operand is a function of a combinator, written as a lambda or a bare op."""
    if COMBINATOR not in op.definition.hooks:  # type: ignore[attr-defined]
        return False
    return isinstance(node, ast.Lambda) or _op_of(node) is not None


def _op_of(node: ast.expr) -> Op | None:
    path = path_of(node) or ""
    return find_op(path[2:]) if path.startswith("R.") else None


def read_function_operand(
    context: Context, op: Op, node: ast.Call, operands: Sequence[Any], keywords: Mapping[str, Any]
) -> Expr:
    """Binds the function of a combinator as a nested function; returns its variable."""
    first, exprs = (
        node.args[0],
        [context.expr(x, n) for x, n in zip(operands, node.args[1:], strict=True)],
    )
    with context.binding_sizes():
        infos = [_with_own_sizes(context, info) for info in _params(op, exprs, keywords)]
    if isinstance(first, ast.Lambda):
        names, body = [item.arg for item in first.args.args], first.body
    else:
        names = [*NAMES[: len(infos)]]
        values: list[ast.expr] = [ast.Name(name, ast.Load()) for name in names]
        body = ast.Call(first, values, [])
    _check_params(context, first, names, len(infos))
    tree = ast.FunctionDef(
        "fn", ast.arguments([], [], None, [], [], None, []), [ast.Return(body)], []
    )
    for part in ast.walk(tree):
        ast.copy_location(part, first) if not hasattr(part, "lineno") else None
    return _bound(context, tree, dict(zip(names, infos, strict=True)), first)


def _params(op: Op, operands: Sequence[Expr], keywords: Mapping[str, Any]) -> list[StructInfo]:
    """Returns the StructInfos of the slices that a combinator passes."""
    function = Var("fn", FuncStructInfo(None, OBJECT))
    call: Any = op.definition.bind((function, *operands), dict(keywords), None)
    view: LoopView = op.definition.hooks["loop"](call)  # type: ignore[attr-defined]
    return [slice_info(s.of(call) or OBJECT, s.axes) for s in view.operands]


def _with_own_sizes(context: Context, info: StructInfo) -> StructInfo:
    """Returns a StructInfo with a new dim for each unknown size beside known axes, as a parameter
    `R.Tensor((2, "_"))` has."""
    if isinstance(info, TupleStructInfo):
        return replace(info, fields=tuple([_with_own_sizes(context, f) for f in info.fields]))
    if not isinstance(info, TensorStructInfo) or info.axes is None:
        return info
    axes = [_own_size(context, axis) for axis in info.axes]
    return tensor(tuple(axes), info.element, info.vdevice)


def _own_size(context: Context, axis: Any) -> Any:
    if type(axis) is Labelled:
        return Labelled(_own_size(context, axis.size), axis.label)
    return context.any_size() if type(axis) is AnySize else axis


def _check_params(context: Context, node: ast.expr, names: list[str], count: int) -> None:
    if len(names) != count or len({*names}) < count:
        message = f"expected a function of {count} parameters, found `{ast.unparse(node)}`"
        hint = f"write `lambda {', '.join(NAMES[:count])}: ...`"
        raise context.error(node, message, hint, "E0225")


def _bound(
    context: Context, tree: ast.FunctionDef, params: Mapping[str, StructInfo], node: ast.expr
) -> Var:
    mark, outer_dims, outputs = context.mark(), context.declared_dims, context.outputs
    context.declared_dims, context.outputs = set(), None
    span = context.source_map.span(node)
    try:
        variables = tuple([Var(name, info, span) for name, info in params.items()])
        for var in variables:
            context.define(var.name, var)
        signature = FunctionSignature(tree.name, variables, None, True, {}, tree)
        function = read_function(context, signature, _read_result)
    finally:
        context.declared_dims, context.outputs = outer_dims, outputs
        message = "`{name}` is only visible in its nested function"
        context.leave(mark, message, "pass it as an operand of the call")
    var = context.emit_function(function, context.fresh(), node, None, None)
    context.signatures[var] = signature
    return var


def _read_result(context: Context, nodes: Sequence[ast.stmt]) -> Expr:
    value: Any = nodes[0].value  # type: ignore[attr-defined]
    return context.expr(argument(context, value), value)

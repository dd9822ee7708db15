"""The content of graph nodes: kind, label, operands and attributes of a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from structir.ir.expr import (
    ATOMS,
    Call,
    Constant,
    Expr,
    ExternFunc,
    GlobalVar,
    PrimValue,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.op import Op
from structir.printer.constants import is_inline
from structir.printer.expr_printer import ExprPrinter, attribute, literal
from structir.tools.explorer.shape_data import index_signature

MAX_OPERAND_TEXT = 48  # characters
TIMES = " \N{MULTIPLICATION SIGN} "
Operands: TypeAlias = list[tuple[tuple[int, ...], str, Expr]]  # path, parameter name, value


@attrs.frozen
class NodeContent:
    """The content of a node: kind, label, operands, and optional texts."""

    kind: str
    label: str
    operands: Operands = attrs.Factory(list)
    detail: str = ""  # attributes, or the value of a constant
    family: str = ""  # selects the colour
    signature: str = ""  # the index signature of an op
    callee: str = ""  # the called function of the module


def value_content(value: Expr) -> NodeContent:
    """Returns the node content of a value."""
    return _CONTENTS.get(type(value), _other_content)(value)


def _call_content(call: Call) -> NodeContent:
    callee: Any = call.op
    if isinstance(callee, Op):
        return _op_content(call, callee)
    operands: Operands = [((k,), "", arg) for k, arg in enumerate(call.args)]
    detail = ", ".join([f"{name}={attribute(value)}" for name, value in call.attrs.items()])
    if isinstance(callee, GlobalVar):
        return NodeContent("call", callee.name, operands, detail, "call", callee=callee.name)
    if isinstance(callee, ExternFunc):
        return NodeContent("call", callee.global_symbol, operands, detail, "extern")
    label = callee.name if isinstance(callee, Var) else "call"
    return NodeContent("call", label, [((-1,), "function", callee), *operands], detail, "call")


def _op_content(call: Call, op: Op) -> NodeContent:
    definition: Any = op.definition
    names = definition.argument_names
    operands: Operands = [
        ((k,), names[k], arg) for k, arg in enumerate(call.args) if not _is_omitted(arg)
    ]
    detail = ", ".join([f"{name}={attribute(value)}" for name, value in call.attrs.items()])
    module = getattr(getattr(definition, "body", None), "__module__", "") or ""
    family = module.rpartition(".")[2]
    return NodeContent("op", op.name, operands, detail, family, index_signature(call))


def _is_omitted(argument: Any) -> bool:
    """Returns whether an argument represents an omitted optional operand."""
    return isinstance(argument, Tuple) and not argument.fields


def cast_content(value: Expr) -> NodeContent:
    """Returns the node content of a match_cast."""
    return NodeContent("match", "match_cast", [((0,), "", value)], family="match")


def _item_content(value: TupleGetItem) -> NodeContent:
    names = getattr(value.tuple_value.struct_info, "names", None)
    key = value.index if names is None else literal(names[value.index])
    return NodeContent("field", f"[{key}]", [((0,), "", value.tuple_value)])


def _tuple_content(value: Tuple) -> NodeContent:
    return NodeContent("tuple", "tuple", [((0,), "", value)])


def _constant_content(value: Constant) -> NodeContent:
    return NodeContent("constant", "const", detail=operand_text(value))


def _other_content(value: Expr) -> NodeContent:
    if type(value) in ATOMS:
        return NodeContent("value", "=", [((0,), "", value)])
    return NodeContent("value", type(value).__name__, detail=operand_text(value))


_CONTENTS: dict[type, Callable[[Any], NodeContent]] = {
    Call: _call_content,
    TupleGetItem: _item_content,
    Tuple: _tuple_content,
    Constant: _constant_content,
}


def operand_text(expr: Expr) -> str:
    """Returns an operand as short text."""
    text = _FORMATTERS.get(type(expr), str)(expr)
    return text if len(text) <= MAX_OPERAND_TEXT else f"{text[: MAX_OPERAND_TEXT - 1]}…"


def _constant_text(constant: Constant) -> str:
    data = constant.data
    if not is_inline(data):
        return f"{data.dtype.name} {TIMES.join(map(str, data.shape))}"
    numbers = [
        f"{value:.6g}" if isinstance(value, float) else str(value)
        for value in data.reshape(-1).tolist()
    ]
    return numbers[0] if data.size == 1 else f"[{', '.join(numbers)}]"


_FORMATTERS: dict[type, Callable[[Any], str]] = {
    Constant: _constant_text,
    ShapeExpr: lambda shape: ExprPrinter().sizes(shape.dims),
    PrimValue: lambda prim: ExprPrinter().number(prim.value),
}

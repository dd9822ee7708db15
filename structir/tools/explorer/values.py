"""Values as the explorer's nodes tell them: their kind, their label, what they read."""

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
from structir.printer.expr_printer import ExprPrinter, attribute
from structir.tools.explorer.facts import is_missing, op_line

SHORT = 48  # characters of an operand that is written out in a node
TIMES = " \N{MULTIPLICATION SIGN} "
Operands: TypeAlias = list[tuple[tuple[int, ...], str, Expr]]  # place, name, value


@attrs.frozen
class Described:
    """A value as a node tells it."""

    kind: str
    label: str
    operands: Operands = attrs.Factory(list)
    detail: str = ""
    family: str = ""
    rule: str = ""
    callee: str = ""


def described(value: Expr) -> Described:
    """What a node shows of a value."""
    return DESCRIBED.get(type(value), _other)(value)


def _call(call: Call) -> Described:
    callee: Any = call.op
    if isinstance(callee, Op):
        return _op(call, callee)
    operands: Operands = [((k,), "", arg) for k, arg in enumerate(call.args)]
    detail = ", ".join([f"{name}={attribute(value)}" for name, value in call.attrs.items()])
    if isinstance(callee, GlobalVar):
        return Described("call", callee.name, operands, detail, "call", callee=callee.name)
    if isinstance(callee, ExternFunc):
        return Described("call", callee.global_symbol, operands, detail, "extern")
    label = callee.name if isinstance(callee, Var) else "call"
    return Described("call", label, [((-1,), "function", callee), *operands], detail, "call")


def _op(call: Call, op: Op) -> Described:
    definition: Any = op.definition
    names = definition.argument_names
    operands: Operands = [
        ((k,), names[k], arg) for k, arg in enumerate(call.args) if not is_missing(arg)
    ]
    detail = ", ".join([f"{name}={attribute(value)}" for name, value in call.attrs.items()])
    room = getattr(getattr(definition, "body", None), "__module__", "") or ""
    family = room.rpartition(".")[2]
    return Described("op", op.name, operands, detail, family, op_line(call))


def cast(value: Expr) -> Described:
    """What a node shows of a match_cast."""
    return Described("match", "match_cast", [((0,), "", value)], family="match")


def _item(value: TupleGetItem) -> Described:
    return Described("field", f"[{value.index}]", [((0,), "", value.tuple_value)])


def _tuple(value: Tuple) -> Described:
    return Described("tuple", "tuple", [((0,), "", value)])


def _constant(value: Constant) -> Described:
    return Described("constant", "const", detail=brief(value))


def _other(value: Expr) -> Described:
    if type(value) in ATOMS:
        return Described("value", "=", [((0,), "", value)])
    return Described("value", type(value).__name__, detail=brief(value))


DESCRIBED: dict[type, Callable[[Any], Described]] = {
    Call: _call,
    TupleGetItem: _item,
    Tuple: _tuple,
    Constant: _constant,
}


def brief(expr: Expr) -> str:
    """An operand as a node shows it."""
    text = BRIEF.get(type(expr), str)(expr)
    return text if len(text) <= SHORT else f"{text[: SHORT - 1]}…"


def _of_constant(constant: Constant) -> str:
    data = constant.data
    if not is_inline(data):
        return f"{data.dtype.name} {TIMES.join(map(str, data.shape))}"
    told = [
        f"{value:.6g}" if isinstance(value, float) else str(value)
        for value in data.reshape(-1).tolist()
    ]
    return told[0] if data.size == 1 else f"[{', '.join(told)}]"


BRIEF: dict[type, Callable[[Any], str]] = {
    Constant: _of_constant,
    ShapeExpr: lambda shape: ExprPrinter().sizes(shape.dims),
    PrimValue: lambda prim: ExprPrinter().number(prim.value),
}

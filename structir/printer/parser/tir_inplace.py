"""Functions of TVM's TIR that are called in place: the result begins as a copy of an operand."""

from __future__ import annotations

import ast
from typing import Any

from structir.printer.parser.values import path_of

INPLACE_CALL = "R.call_tir_inplace"


def inplace_call(statements: list[ast.stmt], name: str) -> ast.Call | None:
    """Returns the first call of the function `name` in place, or None."""
    calls = [n for statement in statements for n in ast.walk(statement) if isinstance(n, ast.Call)]
    for node in calls:
        callee = node.args[0] if path_of(node.func) == INPLACE_CALL and node.args else node
        if (path_of(callee) or "").rpartition(".")[2] == name:
            return node
    return None


def positions_of(node: ast.Call) -> list[int] | None:
    """Returns the positions of the operands that a call overwrites; None for another order.

    A result of a kernel is at the position of its parameter: new results, of position -1, are last.
    """
    named = {keyword.arg: keyword.value for keyword in node.keywords}
    value: Any = named.get("inplace_indices", node.args[2] if len(node.args) > 2 else None)
    items = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
    numbers = [getattr(item, "value", -1) for item in items]  # `-1` is not one literal
    overwritten = [number for number in numbers if number != -1]
    ordered = numbers == [*overwritten, *[-1] * (len(numbers) - len(overwritten))]
    if not ordered or not all([type(number) is int for number in overwritten]):
        return None
    return overwritten if overwritten == sorted(set(overwritten)) else None


def copying_loops(result: str, operand: str, annotation: Any) -> list[ast.stmt]:
    """Returns the loops that copy an operand to a result."""
    sizes = [_size(item) for item in annotation.args[0].elts]
    names = [f"{operand}_{k}" for k in range(len(sizes))]
    lines = [f"{'    ' * k}for {names[k]} in range({size}):" for k, size in enumerate(sizes)]
    index = ", ".join(names) or "()"
    copied = f"{'    ' * len(sizes)}{result}[{index}] = {operand}[{index}]"
    return ast.parse("\n".join([*lines, copied])).body


def _size(node: ast.expr) -> str:
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return str(node.value) if is_text else ast.unparse(node)  # type: ignore[attr-defined]

"""StructInfo of parameters without annotation, from the form of their uses in the body."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from structir.ir.struct_info import (
    FuncStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

UNKNOWN_TENSOR = TensorStructInfo()
Use: TypeAlias = tuple[list[ast.expr], ast.expr]  # the targets of a statement, and its value


def info_of_uses(name: str, body: Sequence[ast.stmt]) -> StructInfo:
    """Returns the StructInfo that the body requires of a parameter without annotation.

    It is a tensor of unknown rank and dtype. Where the body unpacks the parameter, it is a tuple
    whose fields follow from their own uses. Where the body calls it, it is a function of the
    arguments and the result of the first call. Uses behind a rebinding of the name are of another
    value.
    """
    return _info(name, [*_uses(body)])


def _info(name: str, uses: Sequence[Use]) -> StructInfo:
    for index, (targets, value) in enumerate(uses):
        later = uses[index + 1 :]
        if isinstance(value, ast.Name) and value.id == name and targets:
            info = _info_of_target(targets[0], later)
            if info != UNKNOWN_TENSOR:
                return info
        if (call := _call_of(name, value)) is not None:
            result = _info_of_target(targets[0], later) if targets and call is value else None
            return FuncStructInfo(tuple(map(_form, call.args)), result or UNKNOWN_TENSOR)
        if any(name in _names(target) for target in targets):
            break
    return UNKNOWN_TENSOR


def _info_of_target(target: ast.expr, later: Sequence[Use]) -> StructInfo:
    """Returns the StructInfo of a value that is bound to a name, or unpacked into names."""
    if isinstance(target, ast.Tuple | ast.List):
        return TupleStructInfo(tuple([_info_of_target(item, later) for item in target.elts]))
    return _info(target.id, later) if isinstance(target, ast.Name) else UNKNOWN_TENSOR


def _call_of(name: str, value: ast.expr) -> ast.Call | None:
    """Returns the first call of the name in an expression."""
    calls = [node for node in ast.walk(value) if isinstance(node, ast.Call)]
    calls = [node for node in calls if isinstance(node.func, ast.Name) and node.func.id == name]
    return min(calls, key=lambda node: (node.lineno, node.col_offset), default=None)


def _form(argument: ast.expr) -> StructInfo:
    """Returns the StructInfo of an argument: a tuple where it is written as one."""
    if isinstance(argument, ast.Tuple | ast.List):
        return TupleStructInfo(tuple(map(_form, argument.elts)))
    return UNKNOWN_TENSOR


def _names(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def _uses(body: Sequence[ast.stmt]) -> Iterator[Use]:
    """Yields targets and values in source order, also of blocks, branches and unrolled loops."""
    for node in body:
        if isinstance(node, ast.Assign):
            yield node.targets, node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield [node.target], node.value
        elif isinstance(node, ast.Return | ast.Expr) and node.value is not None:
            yield [], node.value
        elif isinstance(node, ast.FunctionDef):
            yield [ast.Name(node.name)], ast.Constant(None)  # rebinds the name
        elif isinstance(node, ast.With | ast.If | ast.For):
            yield from _uses(node.body)
            yield from _uses(getattr(node, "orelse", ()))

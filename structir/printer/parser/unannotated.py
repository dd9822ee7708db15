"""StructInfo of parameters without annotation: tensors, and tuples where the body unpacks them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo

UNKNOWN_TENSOR = TensorStructInfo()


def info_of_uses(name: str, body: Sequence[ast.stmt]) -> StructInfo:
    """Returns the StructInfo that the body requires of a parameter without annotation.

    It is a tensor of unknown rank and dtype. Where the body unpacks the parameter, it is a tuple
    whose fields follow from their own uses. Uses behind a rebinding of the name are of another
    value.
    """
    return _info(name, [*_assignments(body)])


def _info(name: str, assignments: Sequence[ast.Assign]) -> StructInfo:
    for index, node in enumerate(assignments):
        later, target = assignments[index + 1 :], node.targets[0]
        if isinstance(node.value, ast.Name) and node.value.id == name:
            if isinstance(target, ast.Tuple | ast.List):
                return TupleStructInfo(tuple([_info_of_target(t, later) for t in target.elts]))
            alias = _info_of_target(target, later)
            if alias != UNKNOWN_TENSOR:
                return alias
        if any(name in _names(t) for t in node.targets):
            break
    return UNKNOWN_TENSOR


def _info_of_target(target: ast.expr, later: Sequence[ast.Assign]) -> StructInfo:
    return _info(target.id, later) if isinstance(target, ast.Name) else UNKNOWN_TENSOR


def _names(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def _assignments(body: Sequence[ast.stmt]) -> Iterator[ast.Assign]:
    """Yields the assignments in source order, also of blocks, branches and unrolled loops."""
    for node in body:
        if isinstance(node, ast.Assign):
            yield node
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield ast.Assign([node.target], node.value)
        elif isinstance(node, ast.With | ast.If | ast.For):
            yield from _assignments(node.body)
            yield from _assignments(getattr(node, "orelse", ()))

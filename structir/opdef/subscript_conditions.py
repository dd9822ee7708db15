"""Parses the conditions of subscripts: `where a == 3, elements(*s) == 24, rank(*s) == 2`."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from keyword import iskeyword

from structir.opdef.subscripts import (
    WHERE,
    Axis,
    RowAxes,
    SubscriptError,
    Subscripts,
    names_of,
)

EXAMPLE = "write a comparison of sizes: `a == 3`, `elements(*s) == 24` or `rank(*s) == 2`"
FUNCTIONS = ("elements", "rank", "min", "max")


def parse_conditions(text: str) -> tuple[str, ...]:
    """Returns the conditions after `where` in subscripts. Raises SubscriptError."""
    equation, where, conditions = text.partition(WHERE)
    if not where:
        return ()
    start = len(equation) + len(where)
    try:
        trees = ast.parse(f"[{conditions}]", mode="eval").body.elts  # type: ignore[attr-defined]
    except SyntaxError:
        message = f"expected conditions after `where`, found `{conditions.strip()}`"
        raise SubscriptError(message, start, len(text), EXAMPLE) from None
    for tree in trees:
        if not _is_condition(tree):
            column = start + tree.col_offset - 1
            message = f"expected a condition, found `{ast.unparse(tree)}`"
            raise SubscriptError(message, column, start + tree.end_col_offset - 1, EXAMPLE)
    return tuple(map(ast.unparse, trees))


def _is_condition(tree: ast.expr) -> bool:
    """Returns whether a tree is a comparison; a rank is compared with a number by `==`."""
    if not isinstance(tree, ast.Compare) or len(tree.ops) != 1:
        return False
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = [node.func.id if isinstance(node.func, ast.Name) else "" for node in calls]
    if not set(names) <= set(FUNCTIONS):
        return False
    if "rank" not in names:
        return True
    number = tree.comparators[0]
    is_number = isinstance(number, ast.Constant) and type(number.value) is int
    return is_number and tree.left is calls[0] and isinstance(tree.ops[0], ast.Eq)


def check_names(text: str, subscripts: Subscripts) -> None:
    """Checks the names of axes, and that conditions mention only these."""
    axes = [axis for term in subscripts.terms for axis in term]
    packs = {axis.name for axis in axes if isinstance(axis, RowAxes)}
    for axis in axes:
        for name in (axis.name,) if isinstance(axis, RowAxes) else names_of(axis):
            _check_name(name, packs, axis)
    known = {*packs, *[name for axis in axes for name in names_of(axis)], *FUNCTIONS}
    for condition in subscripts.where:
        unknown = [name for name in _names_in(condition) if name not in known]
        if unknown:
            start = max(text.rfind(unknown[0]), 0)
            message = f"expected an axis of the subscripts, found `{unknown[0]}`"
            hint = f"replace `{unknown[0]}` by one of {', '.join(sorted(known - {*FUNCTIONS}))}"
            raise SubscriptError(message, start, start + len(unknown[0]), hint)


def _names_in(condition: str) -> Iterator[str]:
    tree = ast.parse(condition, mode="eval")
    return (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def _check_name(name: str, packs: Collection[str], axis: Axis) -> None:
    """Rejects keywords of Python and the names of parameters and of axes in row variables."""
    stem, _, number = name.rpartition("_")
    in_pack = number.isdecimal() and stem in packs
    if not iskeyword(name) and name != "subscripts" and not in_pack and stem != "operands":
        return
    hint = f"rename the axis: `{name.replace('_', '')}1`"
    message = f"expected an axis name, found `{name}`, which is reserved"
    raise SubscriptError(message, axis.columns.start, axis.columns.end, hint)

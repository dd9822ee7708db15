"""Assignments of kernels to several targets, as one assignment for each target."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from structir.printer.parser.kernel_scope import KernelScope
from structir.printer.parser.values import path_of
from structir.printer.syntax import PART

Target = ast.Tuple | ast.List


def unpacked(scope: KernelScope, node: ast.stmt) -> Iterator[ast.stmt]:
    """Yields the assignments of `a, b = b, a`, `n, m = x.shape` and `a = b = 0` to one target each;
    any other statement unchanged.

    A value that a previous target changes is bound to a new name first.
    """
    if not isinstance(node, ast.Assign) or _is_part(node):
        yield node
    elif len(node.targets) > 1 and all(isinstance(t, ast.Name) for t in node.targets):
        for target in node.targets:
            yield _assignment(target, node.value, node)
    elif len(node.targets) == 1 and isinstance(node.targets[0], Target):
        yield from _pairs(scope, node, node.targets[0])
    else:
        yield node


def _is_part(node: ast.Assign) -> bool:
    return isinstance(node.value, ast.Call) and path_of(node.value.func) == f"T.{PART}"


def _pairs(
    scope: KernelScope, node: ast.Assign, target: ast.Tuple | ast.List
) -> Iterator[ast.stmt]:
    values = _values(node.value, len(target.elts))
    starred = any(isinstance(item, ast.Starred) for item in (*target.elts, *values))
    if starred or len(values) != len(target.elts):
        message = f"expected {len(target.elts)} values, found {ast.unparse(node.value)}"
        raise scope.wrong(node, message, "write one assignment per target")
    changed = set[str]()
    stores, later = [], []
    for item, value in zip(target.elts, values, strict=True):
        later.append((item, value, bool(changed & _names(value))))
        changed |= {_base(item)} | _names(item)
    taken = {*scope.vars, *scope.locals, *scope.context.names, *_names(node)}
    for item, value, moved in later:
        if moved:
            name = _fresh(_base(item), taken)
            stored = ast.copy_location(ast.Name(name, ast.Store()), value)
            yield _assignment(stored, value, node)
            value = ast.copy_location(ast.Name(name, ast.Load()), value)
        stores.append(_assignment(item, value, node))
    yield from stores


def _values(node: ast.expr, count: int) -> list[ast.expr]:
    if isinstance(node, ast.Tuple | ast.List):
        return node.elts
    if isinstance(node, ast.Attribute) and node.attr == "shape":
        axes = [ast.copy_location(ast.Constant(axis), node) for axis in range(count)]
        return [ast.copy_location(ast.Subscript(node, axis, ast.Load()), node) for axis in axes]
    return []


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _base(node: ast.expr) -> str:
    """Returns the variable or array that an assignment changes."""
    return next((n.id for n in ast.walk(node) if isinstance(n, ast.Name)), "value")


def _fresh(name: str, taken: set[str]) -> str:
    number = 1
    while f"{name}_{number}" in taken:
        number += 1
    taken.add(f"{name}_{number}")
    return f"{name}_{number}"


def _assignment(target: ast.expr, value: ast.expr, node: ast.Assign) -> ast.Assign:
    return ast.copy_location(ast.Assign([target], value), node)

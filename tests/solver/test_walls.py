"""Tests that the solver depends on no op and no algebra library."""

import ast
from pathlib import Path

import structir.solver
from structir.ir.op import registered_ops
from structir.ir.polynomial import BUILDERS
from structir.solver.constraints.constraint import Constraint

ROOM = Path(structir.solver.__file__).parent
TREES = {path.name: ast.parse(path.read_text(encoding="utf-8")) for path in ROOM.glob("*.py")}


def test_no_op_is_named() -> None:
    words = BUILDERS.keys() | {
        name for kind in Constraint.__subclasses__() for name in kind.kinds
    }  # with other meanings
    names = {op.name for op in registered_ops()} - words
    named = [
        f"{file}: {node.value}"
        for file, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in names
    ]
    assert named == []


def test_no_algebra_library_is_used() -> None:
    imported = {
        alias.name
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert not {"sympy", "symbolic"} & imported

"""Reads declarations of source files without importing the files."""

from __future__ import annotations

import ast
import pkgutil
from collections.abc import Iterable, Iterator
from importlib.machinery import FileFinder
from pathlib import Path

Definition = ast.FunctionDef | ast.ClassDef


def package_files(folders: Iterable[str]) -> dict[str, Path]:
    """Returns the Python files of a package's folders, by module name."""
    return {
        module.name: Path(module.module_finder.path) / f"{module.name}.py"
        for module in pkgutil.iter_modules(folders)
        if isinstance(module.module_finder, FileFinder) and not module.ispkg
    }


def tree_of(file: Path, needle: str = "") -> ast.Module:
    """Returns the syntax tree of a file; an empty one if the file does not contain `needle`."""
    text = file.read_text(encoding="utf-8")
    return ast.parse(text if needle in text else "")


def assigned_text(tree: ast.Module, name: str) -> str | None:
    """Returns the string that a top-level statement `NAME = "..."` assigns; else None."""
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Constant(value=str(text))):
                if target == name:
                    return text
    return None


def definition(tree: ast.Module, name: str) -> ast.FunctionDef | None:
    """Returns the top-level function of this name."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return next((node for node in functions if node.name == name), None)


def decorated(
    body: Iterable[ast.stmt], decorators: set[str]
) -> Iterator[tuple[ast.FunctionDef, dict[str, ast.expr]]]:
    """Yields the functions with one of these decorators, with the decorator's keywords."""
    for node in body:
        for decorator in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            name, keywords = _decorator(decorator)
            if name in decorators:
                assert isinstance(node, ast.FunctionDef)
                yield node, keywords


def _decorator(node: ast.expr) -> tuple[str, dict[str, ast.expr]]:
    """Returns the name of a decorator, called or not, and the keywords of the call."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func), {k.arg: k.value for k in node.keywords if k.arg}
    return ast.unparse(node), {}

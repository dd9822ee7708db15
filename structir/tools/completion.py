"""Shell completions, computed from source files without importing the compiler."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import typer

from structir import tools
from structir.lazy import lazy_module
from structir.tools.sources import decorated, package_files, tree_of

archive_file = lazy_module("structir.printer.files.safetensors_file")

PACKAGE = Path(tools.__path__[0]).parent
PASS_DECORATORS = {"function_pass", "module_pass"}
FUNCTION = {"R.function"}


def passes_beginning(incomplete: str) -> list[str]:
    """Returns the pipelines that continue this one: pass names after the last comma."""
    return _continued(incomplete, pass_names())


def functions_beginning(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the functions of the program on the command line."""
    return [name for name in _functions(ctx) if name.startswith(incomplete)]


def sizes_beginning(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the symbolic dims of the entry function after the last comma, as `NAME=`."""
    functions = _functions(ctx)
    name = ctx.params.get("function") or ("main" if len(functions) != 1 else next(iter(functions)))
    written = {part.partition("=")[0] for part in incomplete.split(",")[:-1]}
    dims = dict.fromkeys(_dims(functions[name])) if name in functions else {}
    return _continued(incomplete, [f"{dim}=" for dim in dims if dim not in written])


def _continued(incomplete: str, items: Iterable[str]) -> list[str]:
    complete, comma, start = incomplete.rpartition(",")
    return [f"{complete}{comma}{item}" for item in items if item.startswith(start)]


@cache
def pass_names() -> list[str]:
    """Returns the names and aliases of all passes of the package."""
    names = set(package_files([str(PACKAGE / "passes")])) - {"base"}
    for file in package_files([str(PACKAGE / "passes")]).values():
        for _, keywords in decorated(tree_of(file, "aliases=").body, PASS_DECORATORS):
            names |= set(ast.literal_eval(keywords.get("aliases", ast.Tuple([]))))
    for file in package_files([str(PACKAGE / "ops" / "rewrites")]).values():
        names |= {rule.name for rule, _ in decorated(tree_of(file).body, {"rewrite"})}
    return sorted(names)


@cache
def check_names() -> list[str]:
    """Returns the checks of the fuzzer, in the order of their declaration."""
    tree = tree_of(PACKAGE / "tools" / "checks.py")
    return [function.name for function, _ in decorated(tree.body, {"check"})]


@cache
def hostile_kinds() -> list[str]:
    """Returns the kinds of hostile input of the fuzzer."""
    return sorted(package_files([str(PACKAGE / "tools" / "hostile" / "kinds")]))


def _functions(ctx: typer.Context) -> dict[str, ast.FunctionDef]:
    """Returns the functions of the program on the command line; none if it cannot be read."""
    words = [ctx.params.get("file"), *ctx.args]  # in `ctx.args` after an option without its value
    try:
        body = ast.parse(_text(Path(next(filter(None, words))))).body
    except (StopIteration, KeyError, OSError, ValueError, SyntaxError, RecursionError):
        return {}
    body = [*body, *[part for node in body if isinstance(node, ast.ClassDef) for part in node.body]]
    return {function.name: function for function, _ in decorated(body, FUNCTION)}


def _text(file: Path) -> str:
    if file.suffix != ".sir":
        return file.read_text(encoding="utf-8")
    text: str = archive_file.mapped_file(file)[1]["structir"]
    return text


def _dims(function: ast.FunctionDef) -> Iterator[str]:
    """Yields the names of dims that are a single variable in the shapes of the parameters."""
    arguments = function.args.args
    for annotation in [argument.annotation for argument in arguments if argument.annotation]:
        for node in ast.walk(annotation):
            if isinstance(node, ast.Tuple | ast.List):
                yield from filter(str.isidentifier, map(_axis, node.elts))


def _axis(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(name)) | ast.Name(id=name):
            return name
    return ""

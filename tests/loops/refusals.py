"""The refusals of the primitives: where each is raised, and the primitives without it."""

import ast
import sys
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import attrs
import pytest

from structir import loops
from structir.loops.schedule.primitive import Primitive
from structir.loops.schedule.refusal import ScheduleError

PACKAGE = Path(loops.__file__).parent


@attrs.frozen(order=True)
class Site:
    """A line of a function in `structir.loops`."""

    module: str
    line: int
    function: str = attrs.field(order=False)

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.function}"


@attrs.frozen(order=True)
class Refusal:
    """A `raise` statement of a primitive, or of a check that primitives share; for those of checks,
    `call` is the call of the check by the primitive."""

    site: Site
    call: Site | None

    def __str__(self) -> str:
        return f"{self.site}" if self.call is None else f"{self.site}, called at {self.call}"


@cache
def all_refusals() -> set[Refusal]:
    """Returns the refusals that the sources of the primitives contain."""
    shared = {file: _raises(file) for file in sorted((PACKAGE / "schedule").glob("*.py"))}
    refusals, called = set[Refusal](), set[Site]()
    for file in sorted((PACKAGE / "primitives").glob("*.py")):
        refusals |= {Refusal(site, None) for site in _raises(file)}
        tree = ast.parse(file.read_bytes())
        names = _imported(tree, "structir.loops.schedule.")
        for node, function in _nodes(tree, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            if name in names:
                call = Site(_module(file), node.lineno, function)
                checks = [s for s in shared[PACKAGE / names[name]] if s.function == name]
                refusals |= {Refusal(site, call) for site in checks}
                called.update(checks)
    others = {site for sites in shared.values() for site in sites} - called
    return refusals | {Refusal(site, None) for site in others}


def refusal_of(error: ScheduleError) -> Refusal:
    """Returns the refusal that raised an error; `Primitive` raises it again with its name."""
    first: BaseException = error
    while isinstance(first.__context__, ScheduleError):
        first = first.__context__
    frames = [
        Site(_module(Path(frame.filename)), frame.lineno or 0, frame.name)
        for frame in traceback.extract_tb(first.__traceback__)
    ]
    site = frames[-1]
    calls = [frame for frame in frames[:-1] if frame.module.startswith("primitives.")]
    is_shared = not site.module.startswith("primitives.")
    refusal = Refusal(site, calls[-1] if calls and is_shared else None)
    known = all_refusals()
    return refusal if refusal in known else Refusal(site, None)


def remove(refusals: list[Refusal], patch: pytest.MonkeyPatch) -> None:
    """Removes the last refusal, after the others: its function goes on where it would raise."""
    site = refusals[-1].site
    module = sys.modules[f"structir.loops.{site.module}"]
    lines = {each.site.line for each in refusals if each.site.module == site.module}
    source = _WithoutRaise(lines).visit(ast.parse(Path(str(module.__file__)).read_bytes()))
    new = compile(ast.fix_missing_locations(source), str(module.__file__), "exec")
    codes = {code.co_qualname: code for code in _codes(new)}
    (function,) = (f for f in _functions(module) if site.line in _lines(f.__code__))
    patch.setattr(function, "__code__", codes[function.__code__.co_qualname])


class _WithoutRaise(ast.NodeTransformer):
    def __init__(self, lines: set[int]) -> None:
        self.lines = lines

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return ast.copy_location(ast.Pass(), node) if node.lineno in self.lines else node


def _module(file: Path) -> str:
    return f"{file.parent.name}.{file.stem}"


def _raises(file: Path) -> list[Site]:
    """Returns the statements that raise a new error."""
    tree = ast.parse(file.read_bytes())
    handlers = [node for node, _ in _nodes(tree, ast.ExceptHandler)]
    again = {id(n) for h in handlers if "ScheduleError" in ast.dump(h.type) for n in ast.walk(h)}
    raises = [
        (node, function) for node, function in _nodes(tree, ast.Raise) if id(node) not in again
    ]
    return [Site(_module(file), node.lineno, function) for node, function in raises]


def _nodes(tree: ast.Module, kind: type[Any]) -> Iterator[tuple[Any, str]]:
    """Yields nodes in functions, each with the name of its outermost function."""
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    classes = [n for n in tree.body if isinstance(n, ast.ClassDef)]
    functions += [n for each in classes for n in each.body if isinstance(n, ast.FunctionDef)]
    for function in functions:
        for node in ast.walk(function):
            if isinstance(node, kind):
                yield node, function.name


def _imported(tree: ast.Module, package: str) -> dict[str, str]:
    """Returns the names that a module imports from a package, with the file of each."""
    imports = [n for n in tree.body if isinstance(n, ast.ImportFrom)]
    return {
        alias.name: f"schedule/{node.module.removeprefix(package)}.py"
        for node in imports
        if node.module is not None and node.module.startswith(package)
        for alias in node.names
    }


def _codes(code: CodeType) -> list[CodeType]:
    inner = [const for const in code.co_consts if isinstance(const, CodeType)]
    return [code, *[each for const in inner for each in _codes(const)]]


def _functions(module: Any) -> list[FunctionType]:
    """Returns the functions and methods that a module defines."""
    values = list(vars(module).values())
    values += [v for c in values if isinstance(c, type) for v in vars(c).values()]
    values = [v.transform if isinstance(v, Primitive) else v for v in values]
    own = [v for v in values if isinstance(v, FunctionType)]
    return [v for v in own if v.__code__.co_filename == module.__file__]


def _lines(code: CodeType) -> set[int | None]:
    return {line for *_, line in code.co_lines()}

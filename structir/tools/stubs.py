"""Writes `__init__.pyi` stubs for packages whose names load on first use: `python -m
structir.tools.stubs`."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FunctionType, ModuleType

PACKAGES = Path(__file__).parents[1]
HEADER = "# Written by structir.tools.stubs; tests/tools/test_stubs.py holds it to the package.\n"


def stubs() -> dict[Path, str]:
    """Returns the stub of every such package."""
    found = {}
    for file in sorted(PACKAGES.rglob("__init__.py")):
        name = ".".join(file.relative_to(PACKAGES.parent).parent.parts)
        module = importlib.import_module(name)
        if "_homes" in vars(module):
            found[file.with_suffix(".pyi")] = stub(module)
    return found


def stub(module: ModuleType) -> str:
    """Returns one stub: the names with their modules, and the module's own functions."""
    homes = vars(module)["_homes"] | vars(module).get("_HOMES", {})
    imports = {_import(module, name, home) for name, home in homes.items()}
    lines = list(dict.fromkeys(_functions(module)))
    lines += [f"{name}: str" for name in ("__version__",) if name in vars(module)]
    lines += _callable_modules(homes)
    if "find_pass" in vars(module):
        lines += ["def __getattr__(name: str) -> Callable[..., Pass]: ..."]  # by its file
    text = "\n".join(lines) + "\n" if lines else ""
    used = [name for name in ("Any", "Callable") if re.search(rf"\b{name}\b", text)]
    origins = {"Any": "typing", "Callable": "collections.abc"}
    library = sorted(f"from {origins[name]} import {name}" for name in used)
    parts = ["\n".join(library), "\n".join(sorted(imports - {""}, key=_place)), text.rstrip()]
    return HEADER + "\n" + "\n\n".join(filter(None, parts)) + "\n"


def _place(line: str) -> tuple[str, tuple[int, str], str]:
    """Returns the sort key of an import: its module, then constants, classes, functions."""
    _, module, _, name, *_ = line.split()
    rank = 0 if name.isupper() else 1 if name[0].isupper() else 2
    return module, (rank, name.lower()), line


def _import(module: ModuleType, name: str, home: str) -> str:
    full = home if home.startswith("structir") else f"{module.__name__}.{home}"
    if full == f"{module.__name__}.{name}":  # a pass, by the name of its file
        return ""
    if not full.endswith(":"):
        return f"from {full} import {name} as {name}"
    made = type(importlib.import_module(full[:-1]))
    if "__call__" in vars(made):  # a module that is also callable
        return f"from {made.__module__} import {made.__name__}"
    package, _, last = full[:-1].rpartition(".")
    return f"from {package} import {last} as {name}"


def _callable_modules(homes: Mapping[str, str]) -> Iterator[str]:
    """Returns the modules that are callable, which their class shows."""
    for name, home in homes.items():
        made = type(importlib.import_module(home[:-1])) if home.endswith(":") else object
        if "__call__" in vars(made):
            yield f"{name}: {made.__name__}"


def _functions(module: ModuleType) -> Iterator[str]:
    """Yields the module's own functions with their annotations."""
    for name, value in vars(module).items():
        own = isinstance(value, FunctionType) and value.__module__ == module.__name__
        if own and not name.startswith("_"):
            signature = re.sub(r"'([^']*)'", r"\1", str(inspect.signature(value)))
            yield f"def {name}{signature}: ..."


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text, encoding="utf-8")

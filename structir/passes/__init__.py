"""Passes, found by name: `passes.DeadCodeElimination()` is the pass in the file
dead_code_elimination.py."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from structir.lazy import lazy_names

_FILES = sorted(
    file.stem
    for file in Path(__file__).parent.glob("*.py")
    if file.stem not in ("__init__", "base")
)
_pass_of, _ = lazy_names(__name__, {name: f"{__name__}.{name}" for name in _FILES})
_base, _ = lazy_names(
    __name__,
    dict.fromkeys(("Pass", "function_pass", "module_pass"), f"{__name__}.base")
    | {"Sequential": f"{__name__}.base"},
)


def pass_names() -> list[str]:
    """Every pass of the package, as a pipeline names it."""
    return list(_FILES)


def find_pass(name: str) -> Any:
    """The pass of this name, `dead_code_elimination` or `DeadCodeElimination`; AttributeError if
    none."""
    return _pass_of(re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower())


def __getattr__(name: str) -> Any:
    if name in ("Pass", "function_pass", "module_pass", "Sequential"):
        return _base(name)
    return find_pass(name).with_options


def __dir__() -> list[str]:
    camel = [name.title().replace("_", "") for name in _FILES]
    return sorted([*camel, "Pass", "Sequential", "function_pass", "module_pass", "pass_names"])

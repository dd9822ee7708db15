"""Passes, found by name: `passes.DeadCodeElimination()` is the pass in the file
dead_code_elimination.py.

Every file of this folder but base.py is a pass, and so is every `@rewrite`. The folder `manager`
holds what runs, reads and watches pipelines.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Any

from structir.errors import StructIRError
from structir.lazy import lazy_module, lazy_names

_FILES = sorted(
    file.stem
    for file in Path(__file__).parent.glob("*.py")
    if file.stem not in ("__init__", "base")
)
_pass_of, _ = lazy_names(__name__, {name: f"{__name__}.{name}" for name in _FILES})
_HOMES = {
    "Pass": "base",
    "PassContext": "base",
    "Instrument": "base",
    "function_pass": "base",
    "module_pass": "base",
    "Sequential": "base",
    "pipeline": "manager.pipeline",
    "Timing": "manager.timing",
    "Printing": "manager.printing",
    "VerifyIR": "manager.verifying",
    "VerifyResults": "manager.verifying",
    "Statistics": "manager.statistics",
    "Trace": "manager.trace",
}
_public, _ = lazy_names(__name__, {name: f"{__name__}.{home}" for name, home in _HOMES.items()})
_rules = lazy_module(f"{__name__}.manager.rules")
_OTHERS: dict[str, Any] = {}  # passes from other files


def pass_names() -> list[str]:
    """Every pass, as a pipeline names it."""
    return sorted({*_FILES, *_OTHERS, *_rules.rule_names()})


def add_pass(made: Any) -> Any:
    """Make a pass known that stands in no file of this folder."""
    _OTHERS[made.name] = made
    return made


def find_pass(name: str) -> Any:
    """The pass of this name, `dead_code_elimination` or `DeadCodeElimination`, or of this alias;
    StructIRError if there is none."""
    found = _named(re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower())
    if found is None:
        found = next((p for p in all_passes() if name in p.aliases), None)
    if found is None:
        known = [*pass_names(), *[alias for made in all_passes() for alias in made.aliases]]
        close = difflib.get_close_matches(name, known, 1)
        raise StructIRError(
            f"there is no pass {name!r}" + (f"; did you mean {close[0]}?" if close else ""),
            code="E0610",
        )
    return found


def all_passes() -> list[Any]:
    """Every pass, in the order of their names."""
    return [_named(name) for name in pass_names()]


def _named(name: str) -> Any:
    if name in _FILES:
        return _pass_of(name)
    return _OTHERS.get(name) or _rules.rule_pass(name)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return _public(name)
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return find_pass(name).with_options
    except StructIRError as error:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: {error}") from None


def __dir__() -> list[str]:
    camel = [name.title().replace("_", "") for name in pass_names()]
    return sorted([*camel, *_HOMES, "add_pass", "all_passes", "find_pass", "pass_names"])

"""Discovers passes by name: `passes.DeadCodeElimination()` is the pass of dead_code_elimination.py.

Every file of this folder except base.py is a pass, and so is every `@rewrite`. The folder `manager`
holds the pipeline parser, the rewrite driver and the instruments.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Any

from structir.counterparts import COUNTERPARTS, with_help
from structir.errors import StructIRError
from structir.lazy import lazy_module, lazy_names

_FILES = sorted(
    file.stem
    for file in Path(__file__).parent.glob("*.py")
    if file.stem not in ("__init__", "base")
)
_pass_of, _ = lazy_names(__name__, {name: f"{__name__}.{name}" for name in _FILES})
_HOMES = {
    "AtLeast": "base",
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
    "Proved": "manager.proofs",
    "SaturationReport": "manager.saturation",
    "Trace": "manager.trace",
}
_public, _ = lazy_names(__name__, {name: f"{__name__}.{home}" for name, home in _HOMES.items()})
_rules = lazy_module(f"{__name__}.manager.rules")
_ADDED: dict[str, Any] = {}  # passes added by `add_pass`


def pass_names() -> list[str]:
    """Returns the names of all passes, as pipelines write them."""
    return sorted({*_FILES, *_ADDED, *_rules.rule_names()})


def add_pass(new_pass: Any) -> Any:
    """Registers a pass that has no file in this folder.

    Raises StructIRError for the name of a built-in pass, and for a value that is no pass.
    """
    kind = _public("Pass")
    if not isinstance(new_pass, kind):
        message = f"add_pass: expected a pass, found {new_pass!r}"
        raise StructIRError(f"{message}; help: decorate it with `@module_pass`", code="E0611")
    for name in (new_pass.name, *new_pass.aliases):
        existing = _find(name)
        if existing is not None and existing.name not in _ADDED:
            message = f"add_pass: {name} is the name of the built-in pass {existing.name}"
            raise StructIRError(f"{message}; help: choose another name", code="E0611")
    _ADDED[new_pass.name] = new_pass
    return new_pass


def find_pass(name: str) -> Any:
    """Returns the pass named `dead_code_elimination` or `DeadCodeElimination`, or with that alias.

    Raises StructIRError if there is none.
    """
    match = _find(name)
    if match is None:
        message = with_help(f"unknown pass {name!r}", name)
        if name not in COUNTERPARTS:
            message += f"; {_similar(_snake(name))}"
        raise StructIRError(message, code="E0610")
    return match


def _similar(name: str) -> str:
    """Returns a question with the passes of a similar name, or where passes are listed."""
    names = [*pass_names(), *[alias for each in all_passes() for alias in each.aliases]]
    words = {word for word in name.split("_") if len(word) > 2}
    close = difflib.get_close_matches(name, names, 1) or [
        each for each in names if any(part.startswith(w) for part in each.split("_") for w in words)
    ]
    if not close:
        return "help: `structir.passes.pass_names()` lists the passes"
    return f"did you mean {' or '.join(close[:3])}?"


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _find(name: str) -> Any:
    snake = _snake(name)
    return _named(snake) or next((p for p in all_passes() if snake in p.aliases), None)


def all_passes() -> list[Any]:
    """Returns all passes, ordered by name."""
    return [_named(name) for name in pass_names()]


def _named(name: str) -> Any:
    if name in _FILES:
        return _pass_of(name)
    return _ADDED.get(name) or _rules.rule_pass(name)


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

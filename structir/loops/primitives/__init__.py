"""Discovers primitives by name: every file of this folder is one, and `add_primitive` adds more."""

from __future__ import annotations

import difflib
from pathlib import Path

from structir.errors import Diagnostic
from structir.lazy import import_completely
from structir.loops.primitive import Primitive
from structir.loops.refusal import UnknownPrimitiveError

_FILES = sorted(file.stem for file in Path(__file__).parent.glob("*.py") if file.stem[0] != "_")
_ADDED: dict[str, Primitive] = {}


def primitive_names() -> list[str]:
    """Returns the names of all primitives."""
    return sorted({*_FILES, *_ADDED})


def add_primitive(primitive: Primitive) -> Primitive:
    """Registers a primitive that has no file in this folder."""
    _ADDED[primitive.name] = primitive
    return primitive


def find_primitive(name: str) -> Primitive:
    """Returns the primitive of this name; raises UnknownPrimitiveError if there is none."""
    if name in _ADDED:
        return _ADDED[name]
    if name in _FILES:
        module = import_completely(f"{__name__}.{name}")
        return getattr(module, name)  # type: ignore[no-any-return]
    close = difflib.get_close_matches(name, primitive_names(), 1)
    names = ", ".join(primitive_names())
    help = f"did you mean `{close[0]}`?" if close else f"the primitives are: {names}"
    raise UnknownPrimitiveError(Diagnostic(f"unknown primitive `{name}`", code="E1115", hint=help))

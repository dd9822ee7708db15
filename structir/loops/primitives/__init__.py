"""Primitives by name: `primitives.split(kernel, "i", 8)` is the primitive of split.py.

Each file of this folder declares the primitive of its name. A new file needs no registration.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from structir.lazy import lazy_names

_FILES = sorted(f.stem for f in Path(__file__).parent.glob("*.py") if f.stem != "__init__")
_primitive_of, _names = lazy_names(__name__, {name: f"{__name__}.{name}" for name in _FILES})


def primitive_names() -> list[str]:
    """Returns the names of all primitives."""
    return list(_FILES)


def find_primitive(name: str) -> Any:
    """Returns the primitive of a name; raises AttributeError if there is none."""
    return _primitive_of(name)


def __getattr__(name: str) -> Any:
    return _primitive_of(name)


def __dir__() -> list[str]:
    return [*_names(), "find_primitive", "primitive_names"]

"""Primitives by name: each file of this package declares one; `add_primitive` adds others."""

from __future__ import annotations

from pathlib import Path

from structir.loops.schedule.primitive import Primitive
from structir.loops.schedule.registry import Registry

PRIMITIVES: Registry[Primitive] = Registry("primitive", __name__, Path(__file__).parent)
find_primitive, primitive_names = PRIMITIVES.find, PRIMITIVES.names


def add_primitive(primitive: Primitive) -> Primitive:
    """Registers a primitive that has no file in this package."""
    return PRIMITIVES.add(primitive.name, primitive)

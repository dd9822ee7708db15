"""Op traits: passes look up ops by trait, not by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

OPS_BY_TRAIT: dict[str, Callable[..., Any]] = {}


def has_trait(trait: str, declared: Callable[..., Any]) -> None:
    """Registers `declared` as the op with a trait."""
    OPS_BY_TRAIT[trait] = declared

"""Traits of ops, by which passes find them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

OPS_BY_TRAIT: dict[str, Callable[..., Any]] = {}


def has_trait(trait: str, declared: Callable[..., Any]) -> None:
    """Registers the op that has a trait."""
    OPS_BY_TRAIT[trait] = declared

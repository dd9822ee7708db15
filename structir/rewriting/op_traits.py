"""Ops by the part that they play for passes, which know none by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PLAYERS: dict[str, Callable[..., Any]] = {}


def has_trait(role: str, declared: Callable[..., Any]) -> None:
    """Say which op passes use for a purpose; it stands beside the rewrites of the op."""
    PLAYERS[role] = declared

"""Sets whose last additions can be undone: the names in scope of a region."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class UndoSet:
    """A set with an undo trail: entering a scope takes constant time."""

    def __init__(self) -> None:
        self.members: set[Any] = set()
        self.trail: list[Any] = []

    def add(self, items: Iterable[Any]) -> None:
        """Adds items to the scope."""
        for item in items:
            if item not in self.members:
                self.members.add(item)
                self.trail.append(item)

    def leave(self, mark: int) -> None:
        """Removes all items that were added since the trail had this length."""
        self.members.difference_update(self.trail[mark:])
        del self.trail[mark:]

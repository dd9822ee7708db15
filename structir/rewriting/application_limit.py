"""Limits the number of rule applications, so that a bisection finds the first wrong one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs


@attrs.define
class ApplicationLimit:
    """The number of rule applications that may follow, and a count of those so far."""

    most: int | None = None
    count: int = 0
    latest: Any = None  # the latest application

    @property
    def is_reached(self) -> bool:
        """Whether no further application is permitted."""
        return self.most is not None and self.count >= self.most

    def record(self, application: Any) -> None:
        """Counts an application."""
        self.count += 1
        self.latest = application


_ACTIVE: list[ApplicationLimit] = [ApplicationLimit()]


def active_limit() -> ApplicationLimit:
    """Returns the limit of the innermost context; the outermost one permits everything."""
    return _ACTIVE[-1]


@contextmanager
def limited_applications(most: int | None) -> Iterator[ApplicationLimit]:
    """Enters a context in which at most `most` rule applications take place; None permits all."""
    limit = ApplicationLimit(most)
    _ACTIVE.append(limit)
    try:
        yield limit
    finally:
        _ACTIVE.remove(limit)

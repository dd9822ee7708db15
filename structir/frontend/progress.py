"""Reports the progress of an import."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]  # number of imported nodes, of all nodes


def counter(progress: Progress | None, total: int) -> Callable[[], None]:
    """Returns a function that reports one more imported node."""
    if progress is None:
        return lambda: None
    completed = 0

    def count() -> None:
        nonlocal completed
        completed += 1
        progress(min(completed, total), total)

    return count

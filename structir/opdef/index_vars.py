"""Builds parts of index signatures as source: index variables, accesses, conditions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def index_vars(count: int, stem: str = "i") -> list[str]:
    """Returns `i0`, `i1`, ...: one index variable per axis."""
    return [f"{stem}{k}" for k in range(count)]


def access_text(name: str, entries: Iterable[str]) -> str:
    """Returns an access as source: `x[i0, i1]`."""
    return f"{name}[{', '.join(entries)}]"


def where_text(*conditions: str | Iterable[str]) -> str:
    """Joins the non-empty conditions with commas."""
    flat = [[c] if isinstance(c, str) else list(c) for c in conditions]
    return ", ".join([c for group in flat for c in group if c])


def per_axis(values: int | Sequence[int], count: int) -> tuple[int, ...] | None:
    """Returns one value per axis, from one value or `count` values; None for another number."""
    sequence = (values,) if isinstance(values, int) else tuple(values)
    if len(sequence) == 1:
        return sequence * count
    return sequence if len(sequence) == count else None


def axes_of_any_rank(axis: int | Sequence[int] | None) -> tuple[tuple[int, ...], list[str]] | None:
    """Returns the positions of axes in an access with an axis pack `*rest`, and that access.

    The axes must be distinct and all counted from the same end; else the result is None.
    """
    axes = (axis,) if isinstance(axis, int) else tuple(axis or ())
    if not axes or len(set(axes)) < len(axes):
        return None
    if min(axes) >= 0:
        return axes, [*index_vars(max(axes) + 1), "*rest"]
    if max(axes) < 0:
        count = -min(axes)
        return tuple([a + count + 1 for a in axes]), ["*rest", *index_vars(count)]
    return None

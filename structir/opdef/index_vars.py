"""Helpers of line functions: letters for axes, written out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def index_vars(count: int, stem: str = "i") -> list[str]:
    """`i0`, `i1`, ...: one letter for each axis."""
    return [f"{stem}{k}" for k in range(count)]


def access_text(name: str, entries: Iterable[str]) -> str:
    """An access: `x[i0, i1]`."""
    return f"{name}[{', '.join(entries)}]"


def where_text(*conditions: str | Iterable[str]) -> str:
    """Conditions, one after the other."""
    flat = [[c] if isinstance(c, str) else list(c) for c in conditions]
    return ", ".join([c for group in flat for c in group if c])


def per_axis(values: int | Sequence[int], count: int) -> tuple[int, ...] | None:
    """One value for each spatial axis, from one for all or one for each; None for another
    number."""
    listed = (values,) if isinstance(values, int) else tuple(values)
    if len(listed) == 1:
        return listed * count
    return listed if len(listed) == count else None


def axes_of_any_rank(axis: int | Sequence[int] | None) -> tuple[tuple[int, ...], list[str]] | None:
    """Axes that are all counted from one end, as places among letters and a row for all others;
    None where they are not, or not named."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis or ())
    if not axes or len(set(axes)) < len(axes):
        return None
    if min(axes) >= 0:
        return axes, [*index_vars(max(axes) + 1), "*rest"]
    if max(axes) < 0:
        count = -min(axes)
        return tuple([a + count + 1 for a in axes]), ["*rest", *index_vars(count)]
    return None

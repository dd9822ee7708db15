"""Layouts: the order of axes as a text, such as NCHW, NHWC or NCHW4c."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from structir.opdef.call_view import CallView
from structir.opdef.index_vars import per_axis

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def block(layout: str) -> int:
    """How many channels an inner block holds: 4 of NCHW4c; 0 where there is no block."""
    found = re.search(r"(\d+)[a-z]", layout)
    return int(found[1]) if found else 0


def in_layout(given: CallView, layout: str, entries: Mapping[str, str]) -> list[str]:
    """The entries in the order of a layout, which must name each of them once."""
    axes = re.sub(r"\d", "", layout)
    if sorted(axes) != sorted(entries):
        wanted = "".join(entries)
        given.reject(f"{layout} is no layout of {wanted}")
    return [entries[axis] for axis in axes]


def each(given: CallView, name: str, count: int) -> tuple[int, ...]:
    """An attribute with one value for each spatial axis."""
    found = per_axis(given[name], count)
    if found is None:
        given.reject(f"{name} must be one number or {count}, not {given[name]}")
    return found


def padding(given: CallView, count: int) -> tuple[Sequence[int], Sequence[int]]:
    """The padding before and after each spatial axis: from 1, n or 2n numbers."""
    values = given["padding"]
    if len(values) == 2 * count:
        return values[:count], values[count:]
    found = per_axis(values, count)
    if found is None:
        given.reject(f"padding must be 1, {count} or {2 * count} numbers, not {len(values)}")
    return found, found


def check_rank(given: CallView, name: str, layout: str) -> None:
    """An operand must have the axes of its layout."""
    rank, wanted = given.rank(name), len(re.sub(r"\d", "", layout))
    if rank is not None and rank != wanted:
        given.reject(f"{name} has {rank} axes, but the layout {layout} has {wanted}")

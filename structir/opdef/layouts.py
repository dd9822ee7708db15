"""Layouts: strings for the order of axes, such as NCHW, NHWC or NCHW4c."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from structir.opdef.call_view import CallView, rank_hint
from structir.opdef.index_vars import per_axis

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def block(layout: str, axis: str) -> int:
    """Returns the size of the blocks of an axis: 4 for `c` in NCHW4c, 0 without blocks."""
    match = re.search(rf"(\d+){axis}", layout)
    return int(match[1]) if match else 0


def in_layout(call_view: CallView, layout: str, entries: Mapping[str, str]) -> list[str]:
    """Returns index expressions in the order of a layout, which must name each axis once."""
    axes = re.sub(r"\d", "", layout)
    if sorted(axes) != sorted(entries):
        expected = "".join(entries)
        call_view.reject(f"expected a layout of the axes {expected}, found {layout}")
    return [entries[axis] for axis in axes]


def each(call_view: CallView, name: str, count: int) -> tuple[int, ...]:
    """Returns an attribute as one value per spatial axis."""
    values = per_axis(call_view[name], count)
    if values is None:
        call_view.reject(f"{name}: expected 1 or {count} numbers, found {call_view[name]}")
    return values


def padding(call_view: CallView, count: int) -> tuple[Sequence[int], Sequence[int]]:
    """Returns the padding before and after each of n spatial axes, from 1, n or 2n numbers."""
    values = call_view["padding"]
    if len(values) == 2 * count:
        return values[:count], values[count:]
    symmetric = per_axis(values, count)
    if symmetric is None:
        call_view.reject(
            f"padding: expected 1, {count} or {2 * count} numbers, found {len(values)}"
        )
    return symmetric, symmetric


def check_rank(call_view: CallView, name: str, layout: str) -> None:
    """Rejects an operand whose rank differs from that of its layout."""
    rank, expected = call_view.rank(name), len(re.sub(r"\d", "", layout))
    if rank is not None and rank != expected:
        call_view.reject(
            f"{name}: expected {expected} axes (layout {layout}), found {rank}",
            rank_hint(name, rank, expected),
            "E0304",
        )

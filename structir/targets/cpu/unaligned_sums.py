"""Sums of rows that start at any address: with half vectors, half as many loads cross cache lines.

On an AMD Zen 4 CPU, sums of ragged rows are up to 1.3 times as fast. Maxima, which take more
instructions for a vector, are not, nor are math functions and sums of bfloat16.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from structir.ir.kernel import Apply, Element
from structir.ir.scalar_functions import declared
from structir.targets.cpu.features import has_wide_vectors

HALF_BYTES, WHOLE_BYTES = 32, 64


def vector_bytes(nodes: Iterable[Any]) -> int:
    """Returns the size of the vectors of a kernel over rows, whose loops have these nodes."""
    return HALF_BYTES if not has_wide_vectors() or _only_adds(list(nodes)) else WHOLE_BYTES


def _only_adds(nodes: Sequence[Any]) -> bool:
    """Whether a kernel adds up, and computes nothing that takes more instructions."""
    functions = {node.fn for node in nodes if isinstance(node, Apply)}
    infos: list[Any] = [node.array.struct_info for node in nodes if isinstance(node, Element)]
    dtypes = {info.dtype for info in infos}
    others = {"maximum", "minimum", *declared()}
    return "add_to" in functions and functions.isdisjoint(others) and "bfloat16" not in dtypes

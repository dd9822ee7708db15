"""Explains the kernels of a schedule: why ops were fused, and why kernels were not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from structir.ir.node import ShownAsText
from structir.runtime.tables import html_of, table, text_of

if TYPE_CHECKING:
    from structir.loops.fusion.log import FusionBoundary


@attrs.frozen
class KernelReason:
    """A kernel, the values and ops that it computes, and why they were fused."""

    kernel: str
    values: tuple[str, ...]
    ops: tuple[str, ...]  # with source locations
    reason: str


@attrs.frozen(repr=False)
class FusionExplanation(ShownAsText):
    """Why ops were fused into kernels, why kernels were not fused, and which ops remain.

    `inlined` are the ops that have no kernel, because their users read their operands instead.
    """

    kernels: tuple[KernelReason, ...]
    boundaries: tuple[FusionBoundary, ...]
    inlined: tuple[str, ...] = ()
    remaining: tuple[tuple[str, str], ...] = ()  # ops without a kernel, and why

    def tables(self) -> list[Any]:
        """Returns the tables for a terminal; those without rows are omitted."""
        kernels = [
            (k.kernel, ", ".join(k.values), "\n".join(k.ops), k.reason) for k in self.kernels
        ]
        boundaries = [
            (f"{b.producer} -> {b.reader}", f"{b.producer_op}\n{b.reader_op}", b.reason)
            for b in self.boundaries
        ]
        inlined = [(op,) for op in self.inlined]
        tables = [
            table(("kernel", "values", "ops", "fused because"), kernels),
            table(("boundary", "ops", "not fused because"), boundaries),
            table(("inlined into the ops that read them",), inlined),
            table(("remaining op", "no kernel because"), self.remaining),
        ]
        return [each for each in tables if each.row_count]

    def __str__(self) -> str:
        return text_of(self.tables())

    def _repr_html_(self) -> str:
        """Returns the HTML that a notebook displays."""
        return html_of(self.tables())

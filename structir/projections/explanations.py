"""Explanations of projections: the accesses that require whole axes or operands, with locations."""

from __future__ import annotations

import attrs

from structir.errors import Span


@attrs.frozen
class WholeAxis:
    """An operand that is required completely along an axis (None: along all), and the reason."""

    operand: str
    axis: int | None
    reason: str
    span: Span | None = None

    def __str__(self) -> str:
        where = "" if self.span is None else f" ({self.span})"
        whole = "all of it" if self.axis is None else f"all of axis {self.axis}"
        return f"{self.operand}: {whole}: {self.reason}{where}"

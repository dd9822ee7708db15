"""Equations between elements of the results of two programs."""

from __future__ import annotations

import attrs

from structir.proving.kernel import Loops
from structir.proving.term_text import equation_text
from structir.proving.terms import ScalarTerm


@attrs.frozen(eq=False)
class ResultEquation:
    """`left == right` at every point of loops; the element of one result."""

    result: str
    loops: Loops
    left: ScalarTerm
    right: ScalarTerm

    def __str__(self) -> str:
        return equation_text(self.left, self.right, self.loops)

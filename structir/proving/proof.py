"""Proofs: equations between terms, with what the kernel needs to check them again."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from structir.ir.dim_facts import Facts
from structir.ir.dims import Dim, Sym
from structir.ir.node import ShownAsText
from structir.proving.equations import ResultEquation
from structir.proving.kernel import Case, Change, Loops, ProofKernel
from structir.proving.laws import LAWS
from structir.proving.loops import Replay
from structir.proving.ranks import RankInstance


@attrs.frozen(eq=False)
class ProvedEquation:
    """An equation with its certificate: the cases, and the changes of ranges in order."""

    equation: ResultEquation
    case: Case
    changes: tuple[Change | None, ...]
    laws: frozenset[str]
    exact: bool

    def check(self) -> bool:
        """Checks the equation again with the kernel alone."""
        kernel = ProofKernel(Replay(self.changes), self.exact)
        equation = self.equation
        return kernel.holds(
            equation.left, equation.right, Facts().bounded(equation.loops), self.case
        )


@attrs.frozen(eq=False, repr=False)
class Proof(ShownAsText):
    """A proof that two programs are equal: one equation for each result, at each rank.

    `instances` are equations at other ranks that treat the axes of a row alike.
    """

    equations: tuple[ProvedEquation, ...]
    ranks: str = ""  # of row variables, where there are any
    instances: tuple[RankInstance, ...] = ()

    def check(self) -> bool:
        """Checks every equation again with the kernel alone, and the instances at other ranks."""
        are_proved = all([equation.check() for equation in self.equations])
        return are_proved and all([instance.check() for instance in self.instances])

    @property
    def laws(self) -> list[str]:
        """Returns the names of the laws that the proof uses."""
        used = frozenset[str]().union(*[e.laws for e in self.equations])
        return [name for name in LAWS if name in used]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """Yields the text: the equations of the first rank, and the laws."""
        names = dict.fromkeys(e.equation.result for e in self.equations)
        for name in names:
            matching = [e for e in self.equations if e.equation.result == name]
            first = matching[min(1, len(matching) - 1)]
            yield f"{name}: {first.equation}"
            count = _count(first.case)
            if count > 1:
                yield f"  in {count} cases of conditions on indices"
        for name in self.laws:
            yield f"by {name}: {LAWS[name]}"


def _count(case: Case) -> int:
    return 1 if case is None else _count(case[1]) + _count(case[2])


def sizes_of(loops: Loops) -> dict[Sym, Dim]:
    """Returns the extents of loops by variable."""
    return dict(loops)

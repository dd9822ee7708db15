"""Checks in kernels, and the elements that a loop comes to in even steps, which are checked
before it.

A check that fails stores its site and the two numbers in the report of the kernel, which then
returns 1.
"""

from __future__ import annotations

from collections.abc import Iterator

from structir.ir.expr import Var
from structir.ir.kernel import (
    Apply,
    Assign,
    Element,
    For,
    Kernel,
    Literal,
    Local,
    Scalar,
    Size,
)
from structir.ir.node import replace
from structir.loops.program.kernel_table import Site
from structir.targets.cpu.assembly import Assembly

GREATEST = 2**63 - 1
REPORT = "%report"


class Checks:
    """The checks of one kernel, with the sites that they report."""

    def __init__(self, asm: Assembly, kernel: Kernel) -> None:
        self.asm, self.kernel = asm, kernel
        self.sites: list[Site] = []
        self._failures: list[tuple[str, int, str, str]] = []  # block, site, index and size

    def site(self, array: Var, axis: int = 0, element: Element | None = None) -> int:
        """Adds a place that may fail; returns its number, from 1."""
        self.sites.append(Site(self.kernel, element, axis, array))
        return len(self.sites)

    def inside(self, index: str, size: str, site: int) -> None:
        """Emits the check 0 <= index < size, for a size that is not negative."""
        self.require(self.asm.compare("ult", index, size), index, size, site)

    def not_negative(self, size: str, site: int) -> None:
        """Emits the check that a size is not negative."""
        self.require(self.asm.compare("sge", size, "0"), size, size, site)

    def require(self, test: str, index: str, size: str, site: int) -> None:
        """Emits the check of a condition."""
        after = self.asm.label("checked")
        self._failures.append((self.asm.block, site, index, size))
        self.asm.branch(test, after, "fail")
        self.asm.start(after)

    def all_inside(
        self, first: str, step: str, last: str, steps: str, size: str, site: int
    ) -> None:
        """Emits checks of all indices from the first to the last, `steps` steps further. Where both
        ends are in range the others are too, unless the distance needs more than 64 bits."""
        self.inside(first, size, site)
        self.inside(last, size, site)
        _, overflows = self.asm.overflowing("smul", step, steps)
        is_exact = self.asm.value(f"xor i1 {overflows}, true")
        is_upward = self.asm.compare("sgt", step, "0")
        outside = self.asm.select(is_upward, "i64", size, "-1")
        tests = [is_exact, self.asm.compare("sge", steps, "0")]
        self.require(self.asm.all_of(tests), outside, size, site)

    def further(self, at: str, count: str, step: str) -> str:
        """Emits the last of some positions in steps, or the greatest number if that is more than 64
        bits; no number is negative, and there is a position."""
        asm = self.asm
        distance, first = asm.overflowing("smul", asm.integer("sub", count, "1"), step)
        last, second = asm.overflowing("sadd", at, distance)
        overflows = asm.value(f"or i1 {first}, {second}")
        return asm.select(overflows, "i64", str(GREATEST), last)

    def failure_lines(self) -> list[str]:
        """Returns the block to which failed checks jump."""
        if not self._failures:
            return []
        lines, words = ["fail:"], list(zip(*self._failures, strict=True))
        for k, values in enumerate(words[1:]):
            incoming = [f"[ {v}, %{block} ]" for block, v in zip(words[0], values, strict=True)]
            lines.append(f"%w{k} = phi i64 {', '.join(incoming)}")
        for k in range(3):
            lines.append(f"%r{k} = getelementptr i64, ptr {REPORT}, i64 {k}")
            lines.append(f"store i64 %w{k}, ptr %r{k}")
        return [*lines, "ret i32 1"]


LAZY = frozenset({"and", "or", "select"})  # which need not come to all of their operands


def induction_elements(loop: For) -> list[Element]:
    """The elements by flat indices that every round comes to, and whose indices are a constant
    number of steps further in each round."""
    if loop.step != 1 or not all(isinstance(s, Assign) for s in loop.body):
        return []
    assigns = [s for s in loop.body if isinstance(s, Assign)]
    changing = {s.target for s in assigns if isinstance(s.target, Local)}
    met = [part for s in assigns for side in (s.value, s.target) for part in _met(side)]
    return [e for e in met if e.flat and _degree(e.indices[0], loop.variable, changing) is not None]


def _met(scalar: Scalar) -> Iterator[Element]:
    """The elements that an expression surely comes to."""
    if isinstance(scalar, Element):
        yield scalar
        for index in scalar.indices:
            yield from _met(index)
    elif isinstance(scalar, Apply):
        for arg in scalar.args[:1] if scalar.fn in LAZY else scalar.args:
            yield from _met(arg)


def _degree(scalar: Scalar, variable: Local, changing: set[Local]) -> int | None:
    """0 for what stays the same in all rounds, 1 for what steps evenly; None for all else."""
    if isinstance(scalar, Literal | Size):
        return 0
    if isinstance(scalar, Local):
        return 1 if scalar == variable else None if scalar in changing else 0
    if not isinstance(scalar, Apply) or scalar.dtype != "int64":
        return None
    degrees = [_degree(arg, variable, changing) for arg in scalar.args]
    known = [degree for degree in degrees if degree is not None]
    if len(known) < len(degrees):
        return None
    total = max(known) if scalar.fn in ("add", "sub", "neg") else sum(known)
    even = scalar.fn in ("add", "sub", "neg", "mul") or total == 0
    return total if even and total <= 1 else None


def with_local(scalar: Scalar, local: Local, value: Scalar) -> Scalar:
    """An expression over a value in the place of a name."""
    if isinstance(scalar, Local):
        return value if scalar == local else scalar
    if isinstance(scalar, Apply):
        return replace(scalar, args=tuple([with_local(a, local, value) for a in scalar.args]))
    return scalar

"""Sibling maps: groups of maps over the same elements that read a common operand, but not each
other.

In one loop they read the common operand once, which is up to 1.7 times as fast on an AMD Zen 4
CPU. `save_traffic` refuses the cases that were slower there, or with AVX2.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from structir.ir.dims import Sym
from structir.loops.program.access import Address, address_of, joined_axes
from structir.loops.program.buffer import MORE, Buffer, element_bytes, may_be_large
from structir.loops.program.expression import Load, Operation, cost_of, walk
from structir.loops.program.stage import Stage
from structir.targets.cpu.features import has_wide_vectors

MOST_STREAMS = 8  # arrays in one loop: the ways of a first-level cache


def save_traffic(first: Sequence[Stage], second: Sequence[Stage], kept: Collection[Buffer]) -> bool:
    """Whether two groups of maps over the same axes are faster in one loop than in two.

    They are if both read the same element of an operand at each point, and the one loop is like the
    two:

    - The collapsed innermost loop is not shorter, and reads and writes neighbouring elements.
    - Arrays that start at one offset in their pages share the ways of the first-level cache: beyond
      these, each access misses it.
    - Results that may be large have one width, as non-temporal stores require.
    - At most one group calls functions, and none on a CPU that writes cache lines in parts: such
      loops are not bound by memory, and share registers.

    Scalars save the start of a kernel in any case.
    """
    if not first[0].parallel:
        return True
    one, other = _Maps(first, kept), _Maps(second, kept)
    calling = [maps for maps in (one, other) if maps.work() >= MORE]
    together = _Maps((*first, *second), kept)
    return (
        any(one.is_at_each_point(read) for read in one.reads if read in other.reads)
        and together.has_neighbours()
        and together.streams() <= MOST_STREAMS
        and one.inner_loop() == other.inner_loop() == together.inner_loop()
        and len(together.streamed_widths()) <= 1
        and len(calling) <= (1 if has_wide_vectors() else 0)
    )


class _Maps:
    """The accesses and the work of maps over common axes."""

    def __init__(self, stages: Sequence[Stage], kept: Collection[Buffer]) -> None:
        self.stages, self.axes, self.extents = stages, stages[0].parallel, stages[0].extents
        written = {s.out for s in stages}
        self.results = [s for s in stages if s.out in kept]
        reads = dict.fromkeys(
            [read for s in stages for read in s.loads if read.buffer not in written]
        )
        self.reads = {r: address_of(r.buffer, r.entries, self.axes) for r in reads}
        self.accesses = list(self.reads.values())
        self.accesses += [address_of(s.out, s.write, self.axes) for s in self.results]

    def is_at_each_point(self, read: Load) -> bool:
        """Whether each point reads another element."""
        address = self.reads[read]
        return all([self.extents[a] == 1 or address.coefficient(a) != 0 for a in self.axes])

    def has_neighbours(self) -> bool:
        """Whether each access moves by at most one element along the last axis."""
        return all([self._step(address) in (0, 1) for address in self.accesses])

    def _step(self, address: Address) -> object:
        """Returns the step along the last axis; None if it is not constant."""
        is_affine = not address.data and not address.pinned(self.axes)
        return address.coefficient(self.axes[-1]) if is_affine else None

    def streams(self) -> int:
        """Returns the number of accesses that move along the last axis."""
        return sum([self._step(address) != 0 for address in self.accesses])

    def inner_loop(self) -> tuple[Sym, ...]:
        """Returns the axes that collapse to the innermost loop."""
        pinned = frozenset[Sym]().union(*[s.pinned for s in self.stages])
        return joined_axes(self.axes, self.extents, self.accesses, pinned)[-1]

    def streamed_widths(self) -> set[int]:
        """Returns the sizes of the elements of results that may be large, in bytes."""
        return {element_bytes(s.out.dtype) for s in self.results if may_be_large(s.out)}

    def work(self) -> float:
        """Returns the work at a point; an addition is 1."""
        nodes = {node for s in self.stages for node in walk(s.body)}
        return sum([cost_of(node.fn) for node in nodes if isinstance(node, Operation)])

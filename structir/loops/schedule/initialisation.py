"""Definite initialisation analysis: regions of an array or scalar that are written before a
read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

import attrs

from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Var
from structir.ir.kernel import Branch, For, KernelStatement, Local, Scratch, While
from structir.loops.schedule.accesses import Mention
from structir.loops.schedule.bounds import extremes
from structir.loops.schedule.loop_tree import LoopTree, blocks_of, jumps

Memory = Var | Local


@attrs.frozen
class Interval:
    """Positions along an axis from `low` to the smallest of `highs`, exclusive."""

    low: Dim
    highs: tuple[Dim, ...]


Region = tuple[Interval, ...]  # one interval per axis; empty for a scalar


class FirstRead:
    """Visits statements in program order and tracks the regions of one array or scalar that are
    written.

    `statement` is the first one that may read an uninitialised element, or None.
    """

    def __init__(self, tree: LoopTree, memory: Memory) -> None:
        self.tree, self.memory = tree, memory
        info: Any = getattr(memory, "struct_info", None)
        self.shape: tuple[Dim, ...] = () if info is None else tuple(info.dims)
        self.is_flat = memory in tree.flat_arrays  # if so, regions are intervals of flat indices
        if self.is_flat:
            self.shape = (prod(self.shape),)
        self.statement: KernelStatement | None = None
        self.loops: list[For] = []  # enclosing loops inside the visited block

    def block(self, block: Sequence[KernelStatement], regions: list[Region]) -> list[Region]:
        """Visits statements; returns the regions that are written at their end."""
        for statement in block:
            if self.statement is None:
                regions = self.visit(statement, regions)
        return regions

    def visit(self, statement: KernelStatement, regions: list[Region]) -> list[Region]:
        """Visits a statement and its nested statements."""
        if isinstance(statement, Scratch):
            return regions if statement.array is not self.memory else self._allocated(statement)
        for mention in self.tree.mentions(statement):
            if mention.memory is self.memory:
                if mention.is_write:
                    regions = [*regions, *self._written(mention)]
                elif not self._is_written(mention, regions):
                    self.statement = statement
        return _VISITS.get(type(statement), FirstRead.visit_nothing)(self, statement, regions)

    def visit_nothing(self, statement: KernelStatement, regions: list[Region]) -> list[Region]:
        """Returns the regions unchanged."""
        return regions

    def visit_loop(self, loop: For, regions: list[Region]) -> list[Region]:
        """Visits a loop; adds the unions of the regions that its iterations write."""
        self.loops.append(loop)
        after = self.block(loop.body, regions)
        self.loops.pop()
        if self._allocates(loop):
            return []
        if jumps(loop.body) is not None:
            return regions
        new = [self._of_all_iterations(region, loop) for region in after[len(regions) :]]
        return [*regions, *[region for region in new if region is not None]]

    def visit_while(self, loop: While, regions: list[Region]) -> list[Region]:
        """Visits a loop that may have no iteration, and adds no region."""
        self.block(loop.body, regions)
        return [] if self._allocates(loop) else regions

    def visit_branch(self, branch: Branch, regions: list[Region]) -> list[Region]:
        """Visits both sides; adds the regions that both write."""
        sides = [self.block(side, regions)[len(regions) :] for side in blocks_of(branch)]
        if self._allocates(branch):
            return []
        return [*regions, *[region for region in sides[0] if region in sides[1]]]

    def _allocates(self, statement: KernelStatement) -> bool:
        """Whether a nested statement allocates the array again."""
        inside = [s for block in blocks_of(statement) for s in self.tree.within(block)]
        return any(isinstance(s, Scratch) and s.array is self.memory for s in inside)

    # ---- regions

    def _whole(self) -> Region:
        return tuple([Interval(0, (size,)) for size in self.shape])

    def _allocated(self, scratch: Scratch) -> list[Region]:
        return [self._whole()] if scratch.zeros else []

    def _written(self, mention: Mention) -> Iterable[Region]:
        """Yields the region of a write, if its indices are affine."""
        if isinstance(self.memory, Local):
            yield ()
        elif mention.element is not None and mention.element.flat == self.is_flat:
            indices = self.tree.indices(mention.element)
            if None not in indices:
                yield tuple([Interval(i, (i + 1,)) for i in indices])  # type: ignore[operator,arg-type]

    def _is_written(self, mention: Mention, regions: list[Region]) -> bool:
        """Whether one of the regions contains the element, or the whole array, of a read."""
        element = mention.element
        indices: tuple[Dim | None, ...] = (None,) * len(self.shape)
        if element is not None and element.flat == self.is_flat:
            indices = self.tree.indices(element)
        return any(
            all(
                _is_whole(interval, size) or self._has(interval, index)
                for interval, size, index in zip(region, self.shape, indices, strict=True)
            )
            for region in regions
        )

    def _has(self, interval: Interval, index: Dim | None) -> bool:
        if index is None:
            return False
        free = [loop for loop in self.loops if not self._mentions(interval, loop)]
        for loops in ((), free):
            lows = extremes(self.tree, index, loops, False)
            highs = extremes(self.tree, index, loops, True)
            if any(dims.at_least(low, interval.low) for low in lows) and all(
                any(dims.at_least(limit, high + 1) for high in highs) for limit in interval.highs
            ):
                return True
        return False

    def _mentions(self, interval: Interval, loop: For) -> bool:
        symbol = self.tree.symbol(loop.variable)
        return any(symbol in dims.syms(dim) for dim in (interval.low, *interval.highs))

    def _of_all_iterations(self, region: Region, loop: For) -> Region | None:
        """Returns the union of a region over the iterations of a loop; None if it is unknown."""
        axes = [axis for axis, each in enumerate(region) if self._mentions(each, loop)]
        if not axes:
            return region if self.tree.runs(loop) else None
        union = self._union(region[axes[0]], loop) if len(axes) == 1 else None
        if union is None:
            return None
        return (*region[: axes[0]], union, *region[axes[0] + 1 :])

    def _union(self, interval: Interval, loop: For) -> Interval | None:
        """Returns the union of an interval that advances with a loop; None if it may have gaps."""
        symbol, ends = self.tree.symbol(loop.variable), self.tree.exact_ends(loop)
        low = dims.linear(interval.low, symbol)
        limits = [dims.linear(high, symbol) for high in interval.highs]
        if ends is None or low is None or not self._is_stride(low[0]):
            return None
        (start, stops, step), stride = ends, low[0]
        highs: list[Dim] = []
        for limit in limits:
            if limit is None or (limit[0] != 0 and dims.equal(limit[0], stride) is not True):
                return None
            if limit[0] == 0:
                highs.append(limit[1])
            elif dims.at_least(limit[1] - low[1], step * stride):
                highs += [stop * stride + low[1] for stop in stops]
            else:
                return None
        # If no limit advances, the union would be nonempty for a loop without iterations.
        moves = any(limit is not None and limit[0] != 0 for limit in limits)
        return Interval(start * stride + low[1], tuple(highs)) if moves else None

    def _is_stride(self, stride: Dim) -> bool:
        """Whether a stride is loop-invariant, at least 0 for all sizes, and not the constant 0."""
        return self.tree.is_size(stride) and dims.at_least(stride, 0) is True and stride != 0


_VISITS: dict[type, Callable[[FirstRead, Any, list[Region]], list[Region]]] = {
    For: FirstRead.visit_loop,
    While: FirstRead.visit_while,
    Branch: FirstRead.visit_branch,
}


def _is_whole(interval: Interval, size: Dim) -> bool:
    """Whether an interval covers an axis."""
    return bool(dims.at_least(0, interval.low)) and all(
        dims.at_least(high, size) for high in interval.highs
    )


def first_uninitialised_read(
    tree: LoopTree, memory: Memory, block: Sequence[KernelStatement]
) -> KernelStatement | None:
    """Returns the first statement of a block that may read an element before the block writes it;
    None if there is none."""
    visit = FirstRead(tree, memory)
    visit.block(block, [])
    return visit.statement


def is_filled(tree: LoopTree, memory: Memory, block: Sequence[KernelStatement]) -> bool:
    """Whether a block writes every element of an array."""
    visit = FirstRead(tree, memory)
    regions = visit.block(block, [])
    return any(
        all(_is_whole(i, size) for i, size in zip(region, visit.shape, strict=True))
        for region in regions
    )

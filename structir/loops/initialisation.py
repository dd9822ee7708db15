"""Definite initialisation: which elements of a local array statements have written before a read.

A written region is a box: for each axis a half-open range. A loop turns the element that its body
writes in each iteration into a box over all iterations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import prod

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Var
from structir.ir.kernel import (
    Branch,
    Break,
    Continue,
    Element,
    For,
    KernelStatement,
    Local,
    While,
)
from structir.loops.accesses import Mention
from structir.loops.bounds import extremes, surely_runs
from structir.loops.loop_tree import LoopTree, blocks_of

Memory = Var | Local


@attrs.frozen
class WrittenRange:
    """The indices of one axis that are written: from `low`, below each of `highs`."""

    low: Dim
    highs: tuple[Dim, ...]


Box = tuple[WrittenRange, ...]  # a scalar has no axes


def first_uninitialised_read(
    tree: LoopTree, memory: Memory, block: Sequence[KernelStatement]
) -> KernelStatement | None:
    """Returns the first statement that may read what the block has not written before."""
    scan = _Scan(tree, memory)
    scan.block(block, [], ())
    return scan.read


def surely_written(tree: LoopTree, memory: Memory, block: Sequence[KernelStatement]) -> bool:
    """Whether a block writes all elements of an array."""
    scan = _Scan(tree, memory)
    boxes = scan.block(block, [], ())
    return scan.is_written(Mention(memory, False), boxes, ())


class _Scan:
    """A walk over statements in order; `read` is the first read of memory that is not written."""

    def __init__(self, tree: LoopTree, memory: Memory) -> None:
        self.tree, self.memory = tree, memory
        self.read: KernelStatement | None = None
        self.sizes: tuple[Dim, ...] = ()  # of the axes of boxes
        self.is_flat = False  # whether boxes are ranges of all elements in row-major order
        if isinstance(memory, Var):
            self.sizes = tree.shape(memory)
            self.is_flat = len(self.sizes) != 1 and tree.has_flat_accesses(memory)
            if self.is_flat:
                self.sizes = (prod(self.sizes),)

    def block(
        self, block: Sequence[KernelStatement], boxes: list[Box], nest: tuple[For, ...]
    ) -> list[Box]:
        """Returns the boxes that are written after the statements; `nest` are the loops around."""
        for statement in block:
            if self.read is not None:
                break
            boxes = self.statement(statement, boxes, nest)
        return boxes

    def statement(
        self, statement: KernelStatement, boxes: list[Box], nest: tuple[For, ...]
    ) -> list[Box]:
        """Returns the boxes that are written after a statement."""
        for mention in self.tree.mentions(statement):
            if mention.memory is not self.memory:
                continue
            if mention.is_write:
                boxes = [*boxes, *self.written(mention)]
            elif not self.is_written(mention, boxes, nest):
                self.read = statement
                return boxes
        match statement:
            case For():
                after = self.block(statement.body, boxes, (*nest, statement))
                return boxes + self.over_iterations(statement, after[len(boxes) :])
            case While():
                self.block(statement.body, boxes, nest)
            case Branch():
                sides = [self.block(side, boxes, nest) for side in blocks_of(statement)]
                return boxes + [box for box in sides[0][len(boxes) :] if box in sides[1]]
        return boxes

    def written(self, mention: Mention) -> list[Box]:
        """Returns the box that a mention writes: an element, or all of a new array."""
        if isinstance(self.memory, Local):
            return [()]
        if mention.creates:  # an array that is created here holds nothing of other iterations
            return [tuple([WrittenRange(0, (size,)) for size in self.sizes])]
        if mention.element is None:
            return []
        indices = self.indices(mention.element)
        known = [index for index in indices if index is not None]
        if len(known) < len(indices):
            return []
        return [tuple([WrittenRange(index, (index + 1,)) for index in known])]

    def over_iterations(self, loop: For, boxes: Iterable[Box]) -> list[Box]:
        """Returns the boxes that all iterations of a loop write."""
        if has_jump(loop.body):
            return []
        grown = [self.grown(box, loop) for box in boxes]
        return merged([box for box in grown if box is not None])

    def grown(self, box: Box, loop: For) -> Box | None:
        """Returns the union of a box over the iterations of a loop; None if it is not a box."""
        tree, symbol = self.tree, self.tree.symbol(loop.variable)
        moving = [axis for axis, written in enumerate(box) if _mentions(written, symbol)]
        if not moving:
            return box if surely_runs(tree, loop) else None
        if len(moving) > 1 or loop.variable not in tree.values:
            return None
        axis = moving[0]
        union = self.union(box[axis], loop, symbol)
        return None if union is None else (*box[:axis], union, *box[axis + 1 :])

    def union(self, written: WrittenRange, loop: For, symbol: Sym) -> WrittenRange | None:
        """Returns the union of a range that moves with a loop, if it has no gaps."""
        tree, step = self.tree, abs(loop.step)
        form, lows = dims.linear(written.low, symbol), tree.lows(loop)
        if form is None or len(lows) != 1 or (loop.step < 0 and step != 1):
            return None
        factor, rest = form
        shift = tree.shift(loop.variable)  # the variable is its symbol plus this number
        highs: list[Dim] = []
        for high in written.highs:
            end = dims.linear(high, symbol)
            if end is None or end[0] not in (0, factor):
                return None
            if end[0] == 0:  # a limit of all iterations
                highs.append(end[1])
                continue
            if not dims.at_least(factor, 0) or not dims.at_least(end[1] - rest, factor * step):
                return None
            highs += [end[1] + factor * (stop - step - shift) for stop in tree.highs(loop)]
        return WrittenRange(rest + factor * (lows[0] - shift), tuple(highs)) if highs else None

    def indices(self, element: Element) -> tuple[Dim | None, ...]:
        """Returns the indices of an element along the axes of boxes."""
        if self.is_flat:
            return (self.tree.flat_index(element),)
        return self.tree.array_indices(element)

    def is_written(self, mention: Mention, boxes: list[Box], nest: tuple[For, ...]) -> bool:
        """Whether what a mention reads is in a written box."""
        if isinstance(self.memory, Local):
            return bool(boxes)
        if mention.element is None:
            reach: list[tuple[list[Dim], list[Dim]]] = [([0], [size]) for size in self.sizes]
        else:
            reach = [self.reach(index, nest) for index in self.indices(mention.element)]
        return any(_contains(box, reach) for box in boxes)

    def reach(self, index: Dim | None, nest: tuple[For, ...]) -> tuple[list[Dim], list[Dim]]:
        """Returns lower bounds and exclusive upper bounds of an index, first of this iteration."""
        if index is None:
            return [], []
        lows, highs = [index], [index + 1]
        for depth in range(len(nest)):
            inner = nest[len(nest) - 1 - depth :]
            lows += extremes(self.tree, index, inner, False)
            highs += [bound + 1 for bound in extremes(self.tree, index, inner, True)]
        return lows, highs


def _mentions(written: WrittenRange, symbol: Sym) -> bool:
    return any(symbol in dims.syms(dim) for dim in (written.low, *written.highs))


def _contains(box: Box, reach: Sequence[tuple[list[Dim], list[Dim]]]) -> bool:
    """Whether a box contains all indices between bounds; each of the bounds holds."""
    return all(
        any(dims.at_least(low, written.low) for low in lows)
        and all(any(dims.at_least(limit, high) for high in highs) for limit in written.highs)
        for written, (lows, highs) in zip(box, reach, strict=True)
    )


def merged(boxes: list[Box]) -> list[Box]:
    """Returns boxes with those that are joined to others along one axis."""
    joined = [
        union
        for first, second in combinations(boxes, 2)
        for a, b in ((first, second), (second, first))
        if (union := _joined(a, b)) is not None
    ]
    return boxes + joined


def _joined(first: Box, second: Box) -> Box | None:
    """Returns the union of two boxes, the second of which continues the first along one axis."""
    differing = [
        axis for axis, pair in enumerate(zip(first, second, strict=True)) if pair[0] != pair[1]
    ]
    if len(differing) != 1:
        return None
    axis = differing[0]
    if first[axis].highs != (second[axis].low,):
        return None
    return (*first[:axis], WrittenRange(first[axis].low, second[axis].highs), *first[axis + 1 :])


def has_jump(
    block: Sequence[KernelStatement], kinds: tuple[type, ...] = (Break, Continue)
) -> KernelStatement | None:
    """Returns a `break` or `continue` of the loop around a block; None if it has none."""
    todo = list(block)
    while todo:
        statement = todo.pop()
        if isinstance(statement, kinds):
            return statement
        if isinstance(statement, Branch):
            todo += [*statement.then, *statement.otherwise]
    return None

"""Einsums with windows, parts, concatenations and constant indices, as gathers and plain einsums.

An affine index of an operand becomes a gather with constant indices, whose axes are the loops of
the index; elements outside of the operand are zeros. A written index of several loops is one loop
of the result, and one of the others follows from it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import reduce

import attrs
import numpy as np

from structir.export.onnx.call import OpCall
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.projections.spec import (
    AccessIndex,
    Condition,
    IndexSpec,
    Read,
    Statement,
    product_of_reads,
)

MAX_INDICES = 1 << 20  # constant indices of one gather
Extents = dict[Sym, Dim]


class NotAffineError(Exception):
    """The call has no form of gathers and einsums."""


def from_index_spec(call: OpCall) -> str | None:
    """Returns the result of a call; None if it has no such form."""
    spec: IndexSpec | None = call.call.op.definition.index_spec(call.call)  # type: ignore[attr-defined]
    plain = spec is not None and spec.base is None and spec.fill == 0 and len(spec.results) == 1
    if spec is None or not plain or spec.results[0].dtype in (None, "bool"):
        return None
    try:
        parts = [_Nest(call, spec, statement).part() for statement in spec.statements]
        return _joined(call, spec.results[0].dims, parts)
    except NotAffineError:
        return None


@attrs.frozen
class _Part:
    """What one statement writes: a block of the result that begins at an offset."""

    name: str
    offsets: tuple[Dim, ...]
    sizes: tuple[Dim, ...]


def _joined(call: OpCall, shape: Sequence[Dim], parts: Sequence[_Part]) -> str:
    """Returns the concatenation of the parts, or the sum of them amid zeros."""
    if not parts:
        return call.expand(call.constant(0), tuple(shape))
    for axis in range(len(shape)):
        ends = itertools.accumulate([part.sizes[axis] for part in parts], initial=0)
        follow = [part.offsets[axis] == end for part, end in zip(parts, ends, strict=False)]
        others = [
            (part.offsets[k], part.sizes[k]) == (0, shape[k])
            for part in parts
            for k in range(len(shape))
            if k != axis
        ]
        if all(follow) and all(others) and sum([p.sizes[axis] for p in parts]) == shape[axis]:
            names = [part.name for part in parts]
            return call.emit("Concat", *names, axis=axis) if len(names) > 1 else names[0]
    padded = [_padded(call, part, shape) for part in parts]
    return reduce(lambda a, b: call.emit("Add", a, b), padded)


def _padded(call: OpCall, part: _Part, shape: Sequence[Dim]) -> str:
    high = [n - o - s for n, o, s in zip(shape, part.offsets, part.sizes, strict=True)]
    return _pad(call, part.name, [*part.offsets, *high])


def _pad(call: OpCall, name: str, widths: Sequence[Dim]) -> str:
    if all([width == 0 for width in widths]):
        return name
    numbers = [width for width in widths if type(width) is int]
    if len(numbers) < len(widths):
        raise NotAffineError
    return call.emit("Pad", name, call.ints(numbers), mode="constant")


class _Nest:
    """One statement: a sum of products of reads."""

    def __init__(self, call: OpCall, spec: IndexSpec, statement: Statement) -> None:
        self.call, self.spec, self.statement = call, spec, statement
        self.extents: Extents = dict(spec.extents)
        self.values: dict[Sym, Dim] = {}  # loops that follow from others
        self.spread: dict[int, AccessIndex] = {}  # axes of the result with indices apart
        value = statement.writes[0].value
        names = None if value is None or len(statement.writes) > 1 else product_of_reads(value)
        if names is None or len({*names}) < len(names) or statement.monoid not in (None, "sum"):
            raise NotAffineError
        self.reads = [statement.read(name) for name in names]
        entries = enumerate(statement.writes[0].entries)
        self.targets = [self.target(axis, entry) for axis, entry in entries]
        if not all(map(self.is_implied, statement.conditions)):
            raise NotAffineError

    def target(self, axis: int, entry: AccessIndex) -> tuple[Sym | None, Dim]:
        """Returns the loop of an axis of the result, and the offset of its first element."""
        if entry.data is not None or entry.loose or entry.whole:
            raise NotAffineError
        loops = [symbol for symbol in dims.syms(entry.dim) if symbol in self.extents]
        if not loops:
            return None, entry.dim
        loop = loops[0]
        offset = dims.substitute(entry.dim, {loop: 0})
        if len(loops) == 1 and dims.equal(entry.dim, offset + dims.as_dim(loop)):
            return loop, offset
        if len(loops) == 1:
            self.spread[axis] = entry
            return loop, 0
        return self.new_target(entry, loops), 0

    def new_target(self, entry: AccessIndex, loops: Sequence[Sym]) -> Sym:
        """Returns a new loop over an axis; one of the loops of its index then follows from it.

        That loop is an index of an operand, outside of which its elements are zeros.
        """
        for loop in loops:
            coefficient, rest = dims.linear(entry.dim, loop) or (0, 0)
            if coefficient in (1, -1) and self.is_axis(loop):
                target = Sym("o")
                self.extents[target] = entry.size
                self.values[loop] = (dims.as_dim(target) - rest) * coefficient
                return target
        raise NotAffineError

    def is_axis(self, loop: Sym) -> bool:
        """Returns whether a loop is the index of a whole axis of an operand."""
        extent, index = self.extents[loop], dims.as_dim(loop)
        entries = [e for read in self.reads for e in read.entries if e.data is None]
        return any([entry.dim == index and entry.size == extent for entry in entries])

    def is_implied(self, condition: Condition) -> bool:
        """Returns whether a condition holds for the elements inside of an operand."""
        stated = condition.op, condition.left, condition.right
        entries = [e for read in self.reads for e in read.entries if e.data is None]
        bounds: list[tuple[str, Dim, Dim]] = []
        bounds += [("le", 0, e.dim) for e in entries] + [("ge", e.dim, 0) for e in entries]
        bounds += [("lt", e.dim, e.size) for e in entries]
        return stated in [*bounds, *[("gt", e.size, e.dim) for e in entries]]

    def part(self) -> _Part:
        """Returns the block of the result that the statement writes."""
        loaded = [self.loaded(read) for read in self.reads]
        loops = [loop for loop, _ in self.targets if loop is not None]
        known = {loop for _, axes in loaded for loop in axes}
        summed = known - {*loops}
        if len({*loops}) < len(loops) or not summed <= {*self.extents}:
            raise NotAffineError
        if {*self.statement.reduce} - known - self.values.keys():
            raise NotAffineError  # a sum over a loop that no operand has
        name = self.contracted(loaded, [loop for loop in loops if loop in known])
        new = [axis for axis, (loop, _) in enumerate(self.targets) if loop not in known]
        name = self.call.unsqueeze(name, new) if new else name
        sizes = tuple([1 if loop is None else self.extents[loop] for loop, _ in self.targets])
        if any([sizes[axis] != 1 for axis in new]):
            name = self.call.expand(name, sizes)
        for axis, entry in self.spread.items():
            name = self.spread_out(name, axis, entry, sizes[axis])
        sizes = tuple([self.spread[k].size if k in self.spread else n for k, n in enumerate(sizes)])
        return _Part(name, tuple([offset for _, offset in self.targets]), sizes)

    def spread_out(self, name: str, axis: int, entry: AccessIndex, count: Dim) -> str:
        """Returns a block with its elements at the indices of an axis, and zeros elsewhere."""
        (loop,) = [symbol for symbol in dims.syms(entry.dim) if symbol in self.extents]
        others = dims.syms(entry.dim) - {loop}
        if type(count) is not int or type(entry.size) is not int or others:
            raise NotAffineError
        sources = np.full(entry.size, count, np.int64)  # of the zero that follows the elements
        for number in range(count):
            sources[dims.evaluate(entry.dim, {loop: number})] = number
        widened = self.widened(name, axis, 0, 1)
        return self.call.emit("Gather", widened, self.numbers(sources), axis=axis)

    def contracted(self, loaded: Sequence[tuple[str, list[Sym]]], loops: list[Sym]) -> str:
        """Returns the sum of the products of the operands over all other loops."""
        if len(loaded) == 1 and loaded[0][1] == loops:
            return loaded[0][0]
        every = list(dict.fromkeys(loop for _, axes in loaded for loop in axes))
        if len(every) > 26:
            raise NotAffineError
        letters = {loop: chr(ord("a") + k) for k, loop in enumerate(every)}
        terms = [*[axes for _, axes in loaded], loops]
        texts = ["".join([letters[loop] for loop in axes]) for axes in terms]
        equation = f"{','.join(texts[:-1])}->{texts[-1]}"
        return self.call.emit("Einsum", *[name for name, _ in loaded], equation=equation)

    # ---- reads

    def loaded(self, read: Read) -> tuple[str, list[Sym]]:
        """Returns an operand over loops, and the loop of each of its axes."""
        name: str = self.call.operands[read.operand]
        axes: list[Sym] = []
        for axis, entry in reversed(list(enumerate(read.entries))):
            if entry.data is not None or entry.loose or entry.whole:
                raise NotAffineError
            index = dims.substitute(entry.dim, self.values)
            loop = dims.as_sym(index)
            if loop in self.extents and self.extents[loop] == entry.size:
                axes.insert(0, loop)
                continue
            name, loops = self.gathered(name, axis, index, entry.size)
            axes = [*loops, *axes]
        return name, axes

    def gathered(self, name: str, axis: int, index: Dim, size: Dim) -> tuple[str, list[Sym]]:
        """Returns an operand with the loops of an index in place of an axis."""
        loops = sorted([s for s in dims.syms(index) if s in self.extents], key=lambda s: s.order)
        counts = [self.extents[loop] for loop in loops]
        numbers = [count for count in counts if type(count) is int]
        known = len(numbers) == len(counts) and np.prod(numbers) < MAX_INDICES
        if type(size) is not int or not known or dims.syms(index) - {*loops}:
            raise NotAffineError
        grids = itertools.product(*map(range, numbers))
        values = [dims.evaluate(index, dict(zip(loops, each, strict=True))) for each in grids]
        indices = np.array(values, np.int64).reshape(numbers)
        low = max(0, -int(indices.min(initial=0)))
        high = max(0, int(indices.max(initial=0)) - size + 1)
        widened = self.widened(name, axis, low, high)
        return self.call.emit("Gather", widened, self.numbers(indices + low), axis=axis), loops

    def widened(self, name: str, axis: int, low: int, high: int) -> str:
        """Returns an operand with zeros before and after the elements of an axis."""
        if not low and not high:
            return name
        axes = self.call.ints([axis])
        return self.call.emit("Pad", name, self.call.ints([low, high]), "", axes, mode="constant")

    def numbers(self, indices: np.ndarray) -> str:
        """Returns the name of constant indices."""
        constant: str = self.call.context.graph.names.constant(indices)
        return constant

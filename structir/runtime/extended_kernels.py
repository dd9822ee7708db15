"""Kernels of equal layers that are not lowered, from those of lowered ones.

If the kernels of a layer are those of the layer before it over other buffers, and so for the next
layer, they repeat: the ops of a layer and of its neighbours alone determine its kernels. Their
buffers are fixed, or a buffer of one layer corresponds to one of the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import attrs

from structir.ir.expr import Constant
from structir.loops.products.packing import origin_of, packed_buffer
from structir.loops.program.buffer import Buffer
from structir.loops.program.kernel_text import KernelText
from structir.loops.regions.region import Lowered, RegionLowering, buffers_of
from structir.runtime.equal_layers import LOWERED, Layers, identity_of
from structir.runtime.kernel_sequence import KernelSequence

Place = tuple[int, int]  # the number of corresponding buffers or texts, and the layer


def extended(
    sequence: KernelSequence, layers: Layers, lowering: RegionLowering
) -> KernelSequence | None:
    """Returns the kernels of all layers, given those of a function that has only some of them; None
    if these do not repeat."""
    correspondence = _Correspondence(layers, lowering)
    kernels = sequence.kernels
    for period in range(1, len(kernels) // 3 + 1):
        for start in range(len(kernels) - 3 * period + 1):
            if correspondence.repeats(kernels[start:], period):
                extension = _Extension(correspondence, sequence, start, period)
                return extension.sequence() if extension.is_valid() else None
    return None


class _Correspondence:
    """The buffers and origins of the lowered layers, with the layer of each."""

    def __init__(self, layers: Layers, lowering: RegionLowering) -> None:
        self.layers = layers
        self.inputs = lowering.inputs
        self.constants: dict[int, Buffer] = dict(lowering.constants)
        self.places: dict[Buffer, Place] = {}
        self.leaves: dict[int, Place] = {}  # of constants and parameters, by their identity
        self.origins: dict[str, Place | None] = {}  # None if several correspond to it
        self.fixed: set[Buffer] = set()  # of all layers
        self._families = 0
        for number, column in enumerate(layers.leaves):
            self._add_leaves(number, column)
        for place in range(layers.length):
            self._add_values(place, lowering.values)
        self.origin_columns = list(dict.fromkeys(layers.origins(lowering.kernels)))
        for number, origins in enumerate(self.origin_columns):
            for layer, origin in enumerate(origins if len({*origins}) > 1 else origins[:1]):
                known = self.origins.setdefault(origin, (number, layer))
                if known != (number, layer):
                    self.origins[origin] = None

    def _add_leaves(self, number: int, column: Sequence[Any]) -> None:
        for layer, leaf in enumerate(column):
            self.leaves[identity_of(leaf)] = number, layer
        for layer in range(LOWERED):
            buffer = self._known_leaf(column[layer])
            if buffer is not None:
                self.places[buffer] = -1 - number, layer

    def _known_leaf(self, leaf: Any) -> Buffer | None:
        if isinstance(leaf, Constant):
            return self.constants.get(id(leaf.data))
        return self.inputs.get(leaf)

    def leaf(self, number: int, layer: int) -> Buffer:
        """Returns the buffer of a constant or a parameter of a layer."""
        leaf = self.layers.leaves[number][layer]
        if not isinstance(leaf, Constant):
            return self.inputs[leaf]
        buffer = self.constants.get(id(leaf.data))
        if buffer is None:
            data = leaf.data
            buffer = Buffer(tuple(data.shape), data.dtype.name, "constant", data=data)
            self.constants[id(data)] = buffer
        return buffer

    def _add_values(self, place: int, values: Mapping[Any, Lowered]) -> None:
        """Adds the values of one binding of each layer, and of one as long before them: the first
        layer may differ from the others in what it reads only."""
        first = self.layers.start + place
        own = [self.layers.bindings[first + k * self.layers.length].var for k in range(LOWERED)]
        columns = zip(*[buffers_of(values[var]) for var in own], strict=True)
        before = first - self.layers.length
        earlier = buffers_of(values[self.layers.bindings[before].var]) if before >= 0 else []
        for column, previous in zip_longest(columns, earlier):
            if column and len({*column}) == LOWERED and column[0].origin == "value":
                self.add(column)
                if previous is not None and previous.origin == "value":
                    self.places.setdefault(previous, (self._families, -1))

    def add(self, buffers: Sequence[Buffer]) -> None:
        """Adds buffers that correspond, of consecutive layers."""
        self._families += 1
        for layer, buffer in enumerate(buffers):
            self.places.setdefault(buffer, (self._families, layer))

    def repeats(self, kernels: Sequence[KernelText], period: int) -> bool:
        """Whether the first kernels are, one period later, those of the next layer, and so for the
        next period; adds further buffers that correspond."""
        if kernels[0].key != kernels[period].key:
            return False
        matching = _Matching(self)
        pairs = zip(kernels[: 2 * period], kernels[period : 3 * period], strict=True)
        if not all(matching.kernels(a, b) for a, b in pairs) or not matching.is_by_layers:
            return False
        self.fixed = {a for a, b in matching.next.items() if a is b}
        for buffer in self.fixed:
            self.places.pop(buffer, None)
        for chain in matching.chains():
            self.add(chain)
        return True

    def packed_place(self, buffer: Buffer) -> Place | None:
        """Returns the place of the constant that a buffer has in packed layout."""
        origin = None if buffer.data is None else origin_of(buffer.data)
        return None if origin is None else self.leaves.get(id(origin.data()))

    def shifted_origin(self, origin: str, shift: int) -> str | None:
        """Returns the origin in a later layer; None if it is unknown."""
        head, rest = origin, ""
        while head not in self.origins:
            head, separator, tail = head.rpartition(": ")
            if not separator:
                return None
            rest = separator + tail + rest
        place = self.origins[head]
        return None if place is None else self.origin_columns[place[0]][place[1] + shift] + rest


class _Matching:
    """Compares kernels with those of the next layer."""

    def __init__(self, correspondence: _Correspondence) -> None:
        self.known = correspondence
        self.next: dict[Buffer, Buffer] = {}
        self.previous: dict[Buffer, Buffer] = {}
        self.is_by_layers = False  # whether any buffer is known to be of the next layer

    def kernels(self, first: KernelText, second: KernelText) -> bool:
        """Whether a kernel is that of the next layer."""
        plain = not (first.sites or first.function or second.sites or second.function)
        same = _form_of(first) == _form_of(second)
        if not (plain and same and self._origins(first.origins, second.origins)):
            return False
        return all(
            len(a) == len(b) and all(map(self.buffers, a, b))
            for a, b in ((first.pointers, second.pointers), (first.scratch, second.scratch))
        )

    def _origins(self, first: Sequence[str], second: Sequence[str]) -> bool:
        shifted = self.known.shifted_origin
        pairs = zip(first, second, strict=False)
        return len(first) == len(second) and all(a == b or shifted(a, 1) == b for a, b in pairs)

    def buffers(self, first: Buffer, second: Buffer) -> bool:
        """Whether a buffer is that of the next layer, or fixed."""
        places = self.known.places
        known, later = places.get(first), places.get(second)
        if first is second:  # memory that each layer overwrites, or that is outside of them
            return (known is None or known[0] >= 0) and self._follows(first, second)
        if known or later:
            self.is_by_layers = True
            is_next = known is not None and later == (known[0], known[1] + 1)
            return is_next and self._follows(first, second)
        form, other = [(b.shape, b.dtype, b.origin, b.base is None) for b in (first, second)]
        if form != other:
            return False
        if first.origin == "constant":
            return self._constants(first, second)
        if first.base is not None and not self.buffers(first.base, second.base):  # type: ignore[arg-type]
            return False
        return self._follows(first, second)

    def _follows(self, first: Buffer, second: Buffer) -> bool:
        """Adds a pair of buffers; returns whether no other pair contradicts it."""
        following = self.next.setdefault(first, second) is second
        return following and self.previous.setdefault(second, first) is first

    def _constants(self, first: Buffer, second: Buffer) -> bool:
        """Whether two constants are packed ones of two layers, or have the same elements."""
        known, later = map(self.known.packed_place, (first, second))
        if known and later:
            one, other = origin_of(first.data), origin_of(second.data)
            alike = one is not None and other is not None and one.form == other.form
            return alike and one.packing == other.packing and later == (known[0], known[1] + 1)  # type: ignore[union-attr]
        return not (known or later) and first.data.tobytes() == second.data.tobytes()

    def chains(self) -> Iterator[list[Buffer]]:
        """Yields buffers that correspond, in the order of the layers."""
        for first in self.next:
            if first not in self.previous and first not in self.known.places:
                chain = [first]
                while chain[-1] in self.next:
                    chain.append(self.next[chain[-1]])
                yield chain


def _form_of(kernel: KernelText) -> tuple[Any, ...]:
    return (
        kernel.key,
        kernel.sizes,
        kernel.range,
        kernel.names,
        kernel.singles,
        kernel.has_phases,
    )


class _Extension:
    """Adds the kernels of omitted layers: `period` kernels from `start` on are those of a layer."""

    def __init__(
        self, correspondence: _Correspondence, sequence: KernelSequence, start: int, period: int
    ) -> None:
        self.known, self.whole = correspondence, sequence
        self.start, self.end = start, start + period
        self.omitted = correspondence.layers.omitted
        self._added: dict[tuple[Any, ...], Buffer] = {}
        self.first: dict[Buffer, int] = {}  # the first kernel of each buffer
        for number, kernel in enumerate(sequence.kernels):
            for buffer in (*kernel.pointers, *kernel.scratch):
                self.first.setdefault(buffer, number)
                self.first.setdefault(buffer.root, number)
        # the buffers of each place, for kernels before and after the added ones
        self.elements: dict[Place, Buffer] = {}
        for buffer, (family, layer) in self.known.places.items():
            kernel_index = self.first.get(buffer)
            if kernel_index is not None:
                later = self.omitted if kernel_index >= self.end else 0
                self.elements[family, layer + later] = buffer

    def is_valid(self) -> bool:
        """Whether later kernels read no buffers of the first layers but those that correspond."""
        places, inner = {*self.known.places, *self.known.fixed}, range(self.start, self.end)
        later = {b for k in self.whole.kernels[self.end :] for b in k.pointers}
        later.update(self.whole.outputs, self.whole.results)
        fixed = [b for b in later if b not in places and b.root not in places]
        return (
            not any(b.origin == "value" and self.first.get(b.root) in inner for b in fixed)
            and not any(buffer in self.known.places for buffer in self.whole.overwritten)
            and all(self._has_origins(k) for k in self.whole.kernels[self.end :])
        )

    def _has_origins(self, kernel: KernelText) -> bool:
        """Whether all origins of a kernel are known or outside of the layers."""
        origins = self.known.origins
        return not any(origins.get(origin, 0) is None for origin in kernel.origins)

    def sequence(self) -> KernelSequence:
        """Returns the kernels of all layers."""
        whole, omitted = self.whole, self.omitted
        before, after = whole.kernels[: self.end], whole.kernels[self.end :]
        layer = before[self.start :]
        added = [self.kernel(k, shift) for shift in range(1, omitted + 1) for k in layer]
        work = whole.operations
        return attrs.evolve(
            whole,
            outputs=tuple([self.buffer(b, omitted) for b in whole.outputs]),
            results=tuple([self.buffer(b, omitted) for b in whole.results]),
            kernels=(*before, *added, *[self.kernel(k, omitted) for k in after]),
            operations=(
                *work[: self.end],
                *work[self.start : self.end] * omitted,
                *work[self.end :],
            ),
        )

    def kernel(self, kernel: KernelText, shift: int) -> KernelText:
        """Returns a kernel that many layers later."""
        origins = [self.known.shifted_origin(o, shift) or o for o in kernel.origins]
        return attrs.evolve(
            kernel,
            pointers=tuple([self.buffer(b, shift) for b in kernel.pointers]),
            scratch=tuple([self.buffer(b, shift) for b in kernel.scratch]),
            origins=tuple(origins),
        )

    def buffer(self, buffer: Buffer, shift: int) -> Buffer:
        """Returns a buffer that many layers later."""
        place = self.known.places.get(buffer)
        if place is not None and place[0] < 0:
            return self.known.leaf(-1 - place[0], place[1] + shift)
        if buffer.data is not None:
            return self._constant(buffer, shift)
        base = None if buffer.base is None else self.buffer(buffer.base, shift)
        key: tuple[Any, ...]
        if place is None:
            same, key = buffer, (buffer, base)
        else:
            key = place[0], place[1] + shift
            same = self.elements.get(key)  # type: ignore[assignment]
        if same is not None and same.base is base:
            return same
        if key not in self._added:
            self._added[key] = Buffer(
                buffer.shape, buffer.dtype, buffer.origin, base, name=buffer.name
            )
        return self._added[key]

    def _constant(self, buffer: Buffer, shift: int) -> Buffer:
        place, origin = self.known.packed_place(buffer), origin_of(buffer.data)
        if place is None or origin is None:
            return buffer
        key = place, origin.form, origin.packing, shift
        if key not in self._added:
            constant = self.known.leaf(place[0], place[1] + shift)
            self._added[key] = packed_buffer(constant, origin.form, origin.packing)
        return self._added[key]

"""The schedule of a product: a block makes a tile of the result in the registers of its threads,
from tiles of both operands in shared memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from math import prod
from typing import Any, ClassVar

import attrs

from structir.backend.cuda.device_text import SIDE, DeviceText, device_text, over_blocks
from structir.backend.cuda.operand import Operand, Source
from structir.backend.cuda.places import RUN, Groups, Places, taken_apart
from structir.backend.cuda.products import axes_read, product_text
from structir.backend.loops.access import Address, joined_axes
from structir.backend.loops.contraction import Contraction
from structir.backend.loops.expression import Apply, Load, computed_in, loads_of
from structir.backend.loops.scalar_text import number_text
from structir.backend.loops.stage import Stage
from structir.backend.loops.writer import Scope, Writer, indented
from structir.ir import dims
from structir.ir.dims import Dim, Sym

TALL = {"float64": 4, "int64": 4, "uint64": 4}  # rows of a thread, of which it has 8 else
WIDE = 4  # columns of a thread
LONG = 16  # terms that lie side by side, from which on a kernel takes slices of them alone
WAIT = "cuda.syncthreads()"
HEAD = (
    "across = cuda.threadIdx.x % tile_side",
    "down = cuda.threadIdx.x // tile_side",
    f"near, far = across * {RUN}, tile_side * {RUN}",
    f"part = cuda.threadIdx.x % (tile_side // {RUN}) * {RUN}",
    f"line = cuda.threadIdx.x // (tile_side // {RUN})",
)


class TileSchedule:
    """A product on its way to text. A block makes one tile of the result after another."""

    block_of: ClassVar[Mapping[str, Any]] = {"square": True}
    operand = Operand

    def __init__(self, stage: Stage, found: Contraction) -> None:
        self.stage, self.found, self.extents = stage, found, stage.extents
        self.writer, self.dtype = Writer(stage.axes), computed_in(stage.out.dtype)
        self.held = self.held_as()
        self.addresses = [found.left_address, found.right_address, found.out_address]
        guarded = [dims.syms(guard.value) for guard in stage.guards]
        self.pinned = frozenset().union(*guarded) & frozenset(stage.axes)
        self.outer = self._joined(found.batch)
        self.rows = self._places("a", found.m, TALL.get(self.dtype, 8))
        self.columns = self._places("b", found.n, WIDE)
        self.taps, terms = self._terms()
        self.left = self.operand(self._source(found.left, found.left_address, terms), self.rows)
        self.right = self.operand(
            self._source(found.right, found.right_address, terms), self.columns
        )

    def held_as(self) -> str:
        """The dtype of operands in shared memory."""
        return self.dtype

    def _joined(self, axes: Iterable[Sym]) -> Groups:
        return joined_axes(axes, self.extents, self.addresses, self.pinned)

    def _places(self, letter: str, axes: tuple[Sym, ...], reach: int) -> Places:
        return Places(letter, self._joined(axes), reach, self.extents, self.writer)

    def _extent(self, axes: Iterable[Sym]) -> Dim:
        return prod(self.extents[axis] for axis in axes)

    def _size(self, axes: Iterable[Sym]) -> str:
        return self.writer.size(self._extent(axes))

    def _terms(self) -> tuple[Groups, tuple[Sym, ...]]:
        """Groups of axes of which the kernel takes one point after the other, and the axes of which
        it takes slices: if many terms lie side by side in an operand, these alone."""
        groups, operands = self._joined(self.found.k), self.addresses[:2]
        for group in groups:
            count = self._extent(group)
            long = not isinstance(count, int) or count >= LONG
            beside = any(place.coefficient(group[-1]) == 1 for place in operands)
            if beside and long and not self.pinned & set(group):
                return [other for other in groups if other is not group], group
        return [], self.found.k

    def _source(self, read: Load, address: Address, terms: tuple[Sym, ...]) -> Source:
        body = self.stage.body
        assert isinstance(body, Apply)
        value = next(factor for factor in body.args if loads_of(factor) == [read])
        axes = axes_read(value, self.stage.axes)
        own = [g for g in self.stage.guards if dims.syms(g.value) & self.pinned <= axes]
        return Source(value, address, tuple(own), terms)

    def device_text(self) -> DeviceText:
        """The kernel's text, and what it says for a library."""
        writer, sides = self.writer, (self.rows, self.columns)
        described = product_text(self.stage, self.found, writer)
        slices, taps = self._size(self.left.source.terms), self._size(_all(self.taps))
        lines = [
            *self._memory(),
            *HEAD,
            *[line for places in sides for line in places.head()],
            *self.left.head(),
            *self.right.head(),
            "half = a_size + b_size",
            f"slices = ({slices} + tile_side - 1) // tile_side",
            f"steps = slices * {taps}" if self.taps else "steps = slices",
            f"zero = {number_text(0, self.held)}",
        ]
        whole = self._extent(self.found.batch)
        count = f"{writer.size(whole)} * a_tiles * b_tiles"
        lines += over_blocks("block", count, self._block())
        tiles = whole * self.rows.tiles * self.columns.tiles
        text = device_text(writer, lines, tiles, self.stage.origins)
        return attrs.evolve(text, product=described, apart=True, **self.block_of)

    def _memory(self) -> list[str]:
        """What a block shares: two slices of both operands; at last, the results."""
        reach = [places.reach for places in (self.rows, self.columns)]
        room = max(2 * SIDE * (SIDE * sum(reach) + 2 * RUN), SIDE**2 * prod(reach))
        return [f"held = cuda.shared.array({room}, {self.dtype})"]

    def _block(self) -> list[str]:
        """One tile of the result."""
        filled = [*self.rows.filled(), *self.columns.filled()]
        return [
            "b_first = left_over(block, b_tiles) * b_wide",
            "others = times(block, b_tiles)",
            "a_first = left_over(others, a_tiles) * a_wide",
            *self._named(self.outer, "g", "times(others, a_tiles)"),
            *filled,
            *([WAIT] if filled else []),
            *self.left.positions(),
            *self.right.positions(),
            *self._nothing(),
            "for step in range(steps + 1):",
            *indented(self._step()),
            *self._finished(),
        ]

    def _own(self) -> Iterable[tuple[int, int]]:
        """The results of a thread."""
        return product(range(self.rows.reach), range(self.columns.reach))

    def _nothing(self) -> list[str]:
        """The results before all terms."""
        return [f"c{i}_{j} = zero" for i, j in self._own()]

    def _named(self, groups: Groups, letter: str, number: str) -> list[str]:
        """Lines that name joined axes at a point of some number."""
        if not groups:
            return []
        names = [f"{letter}{k}" for k in range(len(groups))] if len(groups) > 1 else [letter]
        self.writer.name_axes(groups, names)
        return taken_apart(number, names, [self._size(group) for group in groups])

    def _step(self) -> list[str]:
        """The next slice comes into registers while the one before it is multiplied."""
        lines = ["start = step * tile_side"]
        if self.taps:
            lines = ["start = left_over(step, slices) * tile_side"]
            lines += self._named(self.taps, "tap", "times(step, slices)")
        return [
            *lines,
            *self.left.loads(self.held),
            *self.right.loads(self.held),
            "if step > 0:",
            "    here = (step + 1 & 1) * half",
            *indented(self._multiplied()),
            "there = (step & 1) * half",
            *self.left.stores("there"),
            *self.right.stores("there + a_size"),
            WAIT,
        ]

    def _multiplied(self) -> list[str]:
        """A slice of both operands, term by term."""
        return ["for term in range(tile_side):", *indented(self._term())]

    def _term(self) -> list[str]:
        """One term of all results of a thread."""
        lines = [
            f"x_at = here + term * a_pitch + down * {RUN}",
            "y_at = here + a_size + term * b_pitch + near",
        ]
        for name, places in (("x", self.rows), ("y", self.columns)):
            lines += [f"{name}{k} = held[{name}_at{_own(k)}]" for k in range(places.reach)]
        return lines + [f"c{i}_{j} = add_product(c{i}_{j}, x{i}, y{j})" for i, j in self._own()]

    def _finished(self) -> list[str]:
        """All results to where they belong."""
        each = "for each in range(cuda.threadIdx.x, a_wide * b_wide, cuda.blockDim.x):"
        return [*self._parked(), WAIT, each, *indented(self._results("held")), WAIT]

    def _parked(self) -> list[str]:
        """The results of a thread into shared memory, where all threads find them."""
        lines = []
        for i in range(self.rows.reach):
            lines.append(f"at{i} = (down * {RUN}{_own(i)}) * b_wide + near")
            lines += [f"held[at{i}{_own(j)}] = c{i}_{j}" for j in range(self.columns.reach)]
        return lines

    def _results(self, parked: str, before: str = "") -> list[str]:
        """One result after the other to where it belongs: neighbouring threads have neighbours."""
        writer, scope = self.writer, Scope(frozenset(self.stage.parallel))
        places = [
            *self.rows.named("row", f"{before}times(each, b_wide)"),
            *self.columns.named("column", "left_over(each, b_wide)"),
        ]
        writer.store(self.stage.out, self.stage.write, "total", [scope])
        rows, columns = [writer.size(places.extent) for places in (self.rows, self.columns)]
        return [
            *places,
            f"if row < {rows} and column < {columns}:",
            f"    total = {parked}[each]",
            *indented(scope.lines),
        ]


def _own(number: int) -> str:
    """Where one of the rows, or columns, of a thread is after its first: neighbours by fours."""
    fours, rest = divmod(number, RUN)
    return (f" + {fours} * far" if fours else "") + (f" + {rest}" if rest else "")


def _all(groups: Groups) -> tuple[Sym, ...]:
    return tuple([axis for group in groups for axis in group])

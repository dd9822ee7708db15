"""The schedule of transposing maps, which read along one axis and write along another: tiles go
through shared memory, so that loads and stores are both coalesced."""

from __future__ import annotations

from math import prod

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.loops.fusion.group import Group
from structir.loops.fusion.simplify import simplified
from structir.loops.program.access import address_of
from structir.loops.program.expression import Load, loads_of
from structir.targets.cuda.device_text import (
    SIDE,
    DeviceText,
    device_text,
    over_blocks,
    unrolled,
)
from structir.targets.cuda.rows import SYNC, BlockRowSchedule
from structir.targets.cuda.writer import LoopScope, indented

SHORTEST = 16  # shorter axes are not tiled
MOST_TILES = 4  # operands that one kernel transposes
EACH = 4  # elements of a thread: a tile is twice as wide and as tall as a block
TILE = 2 * SIDE * (2 * SIDE + 1)
LINE = "down + k * (tile_side // 2)"  # the line of a tile that a thread loads or stores


def tile_kernel(group: Group) -> DeviceText | None:
    """Returns the source of transposing maps, or None if nothing is transposed."""
    schedule = TileSchedule(group)
    return schedule.tile_text() if schedule.flat and schedule.is_turned() else None


class TileSchedule(BlockRowSchedule):
    """Writes the kernel of such maps: tiles of two axes, at each point of all others."""

    def is_turned(self) -> bool:
        """Whether operands are read along another axis than the result's."""
        axes = (*self.rows, *self.last)
        self.groups = self.joined(axes)
        if len(self.groups) < 2:
            return False
        self.kept = [s for s in self.stages if s.out in self.group.kept]
        bodies = [simplified(self.phases.resolved(s.body, 0)) for s in self.kept]
        self.turned: list[Load] = []
        along: set[Sym] = set()
        for read in dict.fromkeys(load for body in bodies for load in loads_of(body)):
            axis = self._turned_along(read, axes)
            if axis is not None:
                self.turned.append(read)
                along.add(axis)
        if len(along) != 1 or len(self.turned) > MOST_TILES:
            return False
        (axis,) = along
        self.across = next(g for g in self.groups if g[-1] is axis)
        return all(self._is_long(group) for group in (self.across, self.groups[-1]))

    def _turned_along(self, read: Load, axes: tuple[Sym, ...]) -> Sym | None:
        """Returns the contiguous axis of an operand, if it differs from the result's."""
        address = address_of(read.buffer, read.entries, axes)
        last = self.groups[-1][-1]
        if address.data or address.pinned(axes) or address.coefficient(last) in (0, 1):
            return None
        candidates = [g[-1] for g in self.groups[:-1] if address.coefficient(g[-1]) == 1]
        return candidates[0] if candidates else None

    def _is_long(self, group: tuple[Sym, ...]) -> bool:
        return dims.at_least(SHORTEST - 1, self.extent(group)) is not True

    def tile_text(self) -> DeviceText:
        """Returns the source of the kernel."""
        writer, size = self.writer, self.writer.size
        last = self.groups[-1]
        others = [g for g in self.groups if g is not self.across and g is not last]
        names = ["g"] if len(others) == 1 else [f"g{k}" for k in range(len(others))]
        writer.name_axes([*others, self.across, last], [*names, "t", "u"])
        counts = [size(self.extent(g)) for g in others]
        tall, wide = size(self.extent(self.across)), size(self.extent(last))
        inside = f"if t < {tall} and u < {wide}:"
        read = [  # without a condition, so that a thread waits once for its loads
            f"t = min(t_first + across, {tall} - 1)",
            f"u = min(u_first + {LINE}, {wide} - 1)",
            *self._read(),
        ]
        written = [
            f"t = t_first + {LINE}",
            "u = u_first + across",
            inside,
            *indented(self._written()),
        ]
        block = [
            "g = block // (columns * rows)",
            *writer.decoded(others, counts, "g"),
            "t_first = block // columns % rows * width",
            "u_first = block % columns * width",
            *unrolled("k", EACH, read),
            SYNC,
            *unrolled("k", EACH, written),
            SYNC,
        ]
        whole: Dim = prod([self.extent(g) for g in others])
        lines = [
            *[
                f"tile{k} = cuda.shared.array({TILE}, {_held(r)})"
                for k, r in enumerate(self.turned)
            ],
            "width = 2 * tile_side",
            "down = cuda.threadIdx.x // width",
            "across = cuda.threadIdx.x % width",
            f"columns = ({wide} + width - 1) // width",
            f"rows = ({tall} + width - 1) // width",
            *over_blocks("block", f"{size(whole)} * columns * rows", block),
        ]
        for group in (self.across, last):
            whole = whole * dims.ceildiv(self.extent(group), 2 * SIDE)
        text = device_text(writer, lines, whole, self.group.origins)
        return attrs.evolve(text, square=True, apart=True)

    def _read(self) -> list[str]:
        """Loads each transposed operand along its contiguous axis."""
        scope = LoopScope(frozenset((*self.rows, *self.last)))
        for k, read in enumerate(self.turned):
            value = self.writer.value(read, [scope])
            scope.lines.append(f"tile{k}[({LINE}) * (width + 1) + across] = {_held(read)}({value})")
        return scope.lines

    def _written(self) -> list[str]:
        """Stores the results along their contiguous axis."""
        scope = LoopScope(frozenset((*self.rows, *self.last)))
        for k, read in enumerate(self.turned):
            scope.made[read] = self.writer.fresh()
            truth = " != 0" if read.dtype == "bool" else ""
            scope.lines.append(
                f"{scope.made[read]} = tile{k}[across * (width + 1) + {LINE}]{truth}"
            )
        self.write_roots(self.kept, 0, [scope])
        return scope.lines


def _held(read: Load) -> str:
    """Returns the dtype of an operand in shared memory."""
    return "uint8" if read.dtype == "bool" else read.dtype

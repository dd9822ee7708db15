"""The rows or columns of a tile of a product, mapped to positions on the axes of the program."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from structir.ir.dims import Dim, Sym, ceildiv
from structir.targets.cuda.device_text import SIDE, within_block
from structir.targets.cuda.writer import Writer

RUN = 4  # neighbours that a thread loads and computes: 16 bytes of float32
Groups = list[tuple[Sym, ...]]


class AxisGroups:
    """Groups of axes that all accesses collapse. A tile has `reach` points per thread along a side
    of its block. With several groups, a table holds the positions of each point, computed once per
    tile."""

    def __init__(
        self, letter: str, groups: Groups, reach: int, extents: Mapping[Sym, Dim], writer: Writer
    ) -> None:
        self.letter, self.groups, self.reach = letter, groups, reach
        self.extents, self.writer = extents, writer
        self.sizes = [prod(extents[axis] for axis in group) for group in groups]
        self.extent: Dim = prod(self.sizes)
        self.wide, self.first = f"{letter}_wide", f"{letter}_first"
        self.table = f"{letter}_places" if len(groups) > 1 else ""

    @property
    def tiles(self) -> Dim:
        """The number of tiles on a GPU."""
        return ceildiv(self.extent, SIDE * self.reach)

    def head(self) -> list[str]:
        """Returns the lines that are the same for all tiles."""
        count = self.writer.size(self.extent)
        lines = [
            f"{self.wide} = tile_side * {self.reach}",
            f"{self.letter}_tiles = ({count} + {self.wide} - 1) // {self.wide}",
        ]
        room = SIDE * self.reach * len(self.groups)
        return lines + ([f"{self.table} = cuda.shared.array({room}, int64)"] if self.table else [])

    def filled(self) -> list[str]:
        """Fills the table, by all threads of a block."""
        if not self.table:
            return []
        names = [f"{self.letter}_at{k}" for k in range(len(self.groups))]
        places = ["each", *[f"each + {k} * {self.wide}" for k in range(1, len(names))]]
        body = taken_apart(f"{self.first} + each", names, list(map(self.writer.size, self.sizes)))
        stores = [f"{self.table}[{p}] = {n}" for p, n in zip(places, names, strict=True)]
        return within_block("each", self.wide, [*body, *stores])

    def named(self, name: str, offset: str) -> list[str]:
        """Returns lines that name the axes at a point of the tile, and the point itself."""
        lines = [f"{name} = {self.first} + {offset}"]
        names = [f"{name}_{k}" for k in range(len(self.groups))] if self.table else [name]
        for k, own in enumerate(names if self.table else []):
            lines.append(f"{own} = {self.table}[{offset}{f' + {k} * {self.wide}' if k else ''}]")
        if self.groups:
            self.writer.name_axes(self.groups, names)
        return lines

    def beyond(self, name: str, points: int) -> None:
        """Names the axes at a point that is `points` further along the last one."""
        if self.groups:
            last = f"{name}_{len(self.groups) - 1}" if self.table else name
            self.writer.names[self.groups[-1][-1]] = f"({last} + {points})" if points else last


def taken_apart(number: str, names: list[str], sizes: list[str]) -> list[str]:
    """Returns lines that split a linear index into positions along axes of some sizes."""
    lines, rest = [], number
    for name, size in zip(names[:0:-1], sizes[:0:-1], strict=True):
        if rest == number and not number.isidentifier():
            lines.append(f"{name}_of = {number}")
            rest = f"{name}_of"
        lines += [f"{name} = left_over({rest}, {size})", f"{name}_rest = times({rest}, {size})"]
        rest = f"{name}_rest"
    return [*lines, f"{names[0]} = {rest}"]

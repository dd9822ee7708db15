"""The calls of a routine as source: to be shown, and to be compiled for a GPU."""

from __future__ import annotations

from typing import Any

from structir.ir import dims
from structir.ir.dims import Dim, Poly, Sym
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import axis_dim
from structir.loops.program.routine import BufferPoint, Routine


class PointText:
    """Writes the calls of a routine as source, over its buffers and sizes."""

    def __init__(self, routine: Routine) -> None:
        self.routine = routine
        self.axes = {axis: f"i{k}" for k, axis in enumerate(routine.extents)}
        self.pointers = {buffer: f"p{k}" for k, buffer in enumerate(routine.buffers)}
        self.sizes = {size: f"n{k}" for k, size in enumerate(routine.sizes)}
        self.arrays: dict[tuple[Buffer, bool], str] = {}

    def lines(self) -> list[str]:
        """Returns the lines for one point, with the function under the name `routine`."""
        call = f"routine({', '.join([self._argument(a) for a in self.routine.arguments])})"
        return [*self._position(), call]

    def _argument(self, argument: Any) -> str:
        if isinstance(argument, BufferPoint):
            return self._seen(argument)
        if isinstance(argument, tuple):
            return f"({''.join([f'{self._argument(part)}, ' for part in argument])})"
        if isinstance(argument, Poly):
            is_own = self.routine.has_axes(argument)
            return self._index(argument) if is_own else self._size(argument)
        return repr(argument) if not isinstance(argument, float) else f"float64({argument!r})"

    def _seen(self, place: BufferPoint) -> str:
        scalar = self.routine.is_element(place)
        at = [":" if i is None else self._index(i) for i in place.at] + [":"] * scalar
        key = place.buffer, scalar
        name = self.arrays.setdefault(key, f"x{len(self.arrays)}")
        return f"{name}[{', '.join(at) or '0'}]"

    def arrays_at(self) -> list[str]:
        """Gives operands and results without axes an axis of size 1."""
        lines = []
        for (buffer, scalar), name in self.arrays.items():
            sizes = [*[self._size(d) for d in buffer.shape], *["1"] * (scalar or not buffer.shape)]
            lines.append(f"{name} = array_at({self.pointers[buffer.root]}, ({', '.join(sizes)},))")
        return lines

    def _position(self) -> list[str]:
        """Splits the linear index of the point into positions along the axes."""
        lines, rest = [], "point"
        for axis, name in list(self.axes.items())[::-1]:
            if name == "i0":
                lines.append(f"i0 = {rest}")  # the outermost axis needs no division
                break
            size = self._size(self.routine.extents[axis])
            lines.append(f"{name} = {rest} % {size}")
            lines.append(f"{name}_rest = {rest} // {size}")
            rest = f"{name}_rest"
        return lines

    def _size(self, size: Dim) -> str:
        return self.sizes.get(size) or str(size)

    def _index(self, index: Dim) -> str:
        def name_of(symbol: Sym) -> str:
            return self.axes.get(symbol) or self._size(axis_dim(symbol))

        return f"({dims.python_text(index, name_of)})"

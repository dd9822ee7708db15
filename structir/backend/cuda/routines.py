"""Routines on the GPU: kernels of the program on one thread, on the threads that they name, or on
one thread per point."""

from __future__ import annotations

import hashlib
from typing import Any

from structir.backend.cpu.functions import routine_source
from structir.backend.cuda.device_text import (
    DeviceText,
    device_text,
    kernel_text,
    over_threads,
)
from structir.backend.cuda.kernel_lines import lines_of
from structir.backend.cuda.scalar_text import number_text
from structir.backend.cuda.writer import Writer, indented
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.expression import axis_dim
from structir.backend.loops.group import Group
from structir.backend.loops.routine import BufferPoint, Routine
from structir.backend.loops.scalar_functions import STORED_AS
from structir.backend.loops.stage import KernelCall
from structir.ir import dims
from structir.ir.dims import Dim, Poly, Sym


def routine_kernel(group: Group) -> DeviceText | tuple[DeviceText, ...] | None:
    """Returns the source of a routine, for the stage that runs it."""
    stage = group.stages[0]
    routine = stage.routine
    if routine is None or not routine.runs:
        return None
    if isinstance(routine, KernelCall):
        return _called_kernel(routine, stage.origin)
    text = PointText(routine)
    # the hash keeps routines apart that differ only in the functions that they call
    digest = hashlib.sha256(routine_source(routine.function).encode()).hexdigest()
    points = over_threads("point", "count", text.lines())
    lines = [
        f"# routine: {routine.function.__qualname__} {digest[:16]}",
        *text.arrays_at(),
    ]
    names = (*text.pointers.values(), *text.sizes.values(), "count")
    return DeviceText(
        kernel_text(names, [*lines, *points]),
        tuple(text.pointers),
        (*text.sizes, routine.range),
        routine.range,
        (),
        stage.origins,
        names=names,
        function=routine.function,
    )


def _called_kernel(call: KernelCall, origin: str) -> DeviceText | tuple[DeviceText, ...]:
    """Returns the source of a kernel of the program, after zeros in what its threads write."""
    kernel, origins = call.kernel, (origin,) if origin else ()
    code = lines_of(kernel)
    buffers = tuple([call.memory(array, code.shapes[array]) for array in code.arrays])
    work: Dim = 1
    launch, lines = None, list(code.lines)
    if kernel.blocks is not None:
        work = call.size(kernel.blocks.dim)
        launch = work, kernel.threads
    elif code.spread is not None:
        name, start, stop = code.spread
        head = f"for {name} in range({start} + cuda.grid(1), {stop}, cuda.gridsize(1)):"
        lines = [head, *lines[1:]]
        work = 1 + sum([buffer.elements for buffer in buffers])
    else:
        lines = ["if cuda.grid(1) == 0:", *indented(lines)]
    arrays, sizes = code.names[: len(buffers)], code.names[len(buffers) :]
    text = DeviceText(
        kernel_text([*arrays, *(["report"] if code.sites else []), *sizes], lines),
        buffers,
        tuple(map(call.size, code.sizes)),
        work,
        tuple([b for b in buffers if b.origin == "scratch"]),
        origins,
        sites=code.sites,
        names=code.names,
        launch=launch,
    )
    filled = buffers[len(buffers) - code.zeroed :] if code.zeroed else ()
    return (*[zeroing(buffer, origins) for buffer in filled], text) if filled else text


def zeroing(buffer: Buffer, origins: tuple[str, ...]) -> DeviceText:
    """Returns a kernel that fills a buffer with zeros."""
    writer = Writer(())
    held = STORED_AS.get(buffer.dtype, buffer.dtype)
    line = f"{writer.pointer(buffer)}[i] = {number_text(0, held)}"
    lines = over_threads("i", writer.size(buffer.elements), [line])
    return device_text(writer, lines, buffer.elements, origins)


class PointText:
    """Writes the source of the calls of a routine."""

    def __init__(self, calls: Routine) -> None:
        self.calls = calls
        self.fills_elements = any(map(calls.is_element, calls.arguments))
        self.axes = {axis: f"i{k}" for k, axis in enumerate(calls.extents)}
        self.pointers: dict[Buffer, str] = {}
        self.sizes: dict[Dim, str] = {}
        self.arrays: dict[tuple[Buffer, bool], str] = {}

    def lines(self) -> list[str]:
        """Returns the lines for one point, with the function under the name `routine`."""
        call = f"routine({', '.join([self._argument(a) for a in self.calls.arguments])})"
        return [*self._position(), call]

    def _argument(self, argument: Any) -> str:
        if isinstance(argument, BufferPoint):
            return self._seen(argument)
        if isinstance(argument, tuple):
            return f"({''.join([f'{self._argument(part)}, ' for part in argument])})"
        if isinstance(argument, Poly):
            is_own = self.calls.has_axes(argument)
            return self._index(argument) if is_own else self._size(argument)
        return repr(argument) if not isinstance(argument, float) else f"float64({argument!r})"

    def _seen(self, place: BufferPoint) -> str:
        scalar = self.calls.is_element(place)
        at = [":" if i is None else self._index(i) for i in place.at] + [":"] * scalar
        key = place.buffer, scalar
        name = self.arrays.setdefault(key, f"x{len(self.arrays)}")
        return f"{name}[{', '.join(at) or '0'}]"

    def arrays_at(self) -> list[str]:
        """Gives operands and results without axes an axis of size 1."""
        lines = []
        for (buffer, scalar), name in self.arrays.items():
            sizes = [*[self._size(d) for d in buffer.shape], *["1"] * (scalar or not buffer.shape)]
            pointer = self.pointers.setdefault(buffer.root, f"p{len(self.pointers)}")
            lines.append(f"{name} = array_at({pointer}, ({', '.join(sizes)},))")
        return lines

    def _position(self) -> list[str]:
        """Splits the linear index of the point into positions along the axes."""
        lines, rest = [], "point"
        for axis, name in list(self.axes.items())[::-1]:
            if name == "i0" and not self.fills_elements:
                lines.append(f"i0 = {rest}")  # the outermost axis needs no division
                break
            size = self._size(self.calls.extents[axis])
            lines.append(f"{name} = {rest} % {size}")
            lines.append(f"{name}_rest = {rest} // {size}")
            rest = f"{name}_rest"
        return lines

    def _size(self, size: Dim) -> str:
        """Returns the name of a size. Static ones are arguments too, so that all shapes of a rank
        share the machine code. They are constants where a call fills one element: it takes no
        longer than the divisions that find its position, which are faster by constants."""
        if isinstance(size, int) and self.fills_elements:
            return str(size)
        return self.sizes.setdefault(size, f"n{len(self.sizes)}")

    def _index(self, index: Dim) -> str:
        def name_of(symbol: Sym) -> str:
            return self.axes.get(symbol) or self._size(axis_dim(symbol))

        return f"({dims.python_text(index, name_of)})"

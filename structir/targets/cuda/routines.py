"""Routines on the GPU: kernels of the program on one thread, on the threads that they name, or on
one thread per point."""

from __future__ import annotations

import hashlib

from structir.ir.dims import Dim
from structir.loops.fusion.group import Group
from structir.loops.program.buffer import STORED_AS, Buffer
from structir.loops.program.point_text import PointText
from structir.loops.program.stage import KernelCall
from structir.targets.cpu.functions import routine_source
from structir.targets.cuda.device_text import (
    DeviceText,
    device_text,
    kernel_text,
    over_threads,
)
from structir.targets.cuda.kernel_lines import lines_of
from structir.targets.cuda.scalar_text import number_text
from structir.targets.cuda.writer import Writer, indented


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

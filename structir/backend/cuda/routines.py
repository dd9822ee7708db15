"""Texts of routines on the GPU: kernels of a program as one thread, or as the threads that they
name; calls at points spread."""

from __future__ import annotations

import hashlib

from structir.backend.cpu.functions import routine_source
from structir.backend.cuda.device_text import (
    DeviceText,
    device_text,
    kernel_text,
    over_threads,
)
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.group import Group
from structir.backend.loops.scalar_text import STORED_AS, number_text
from structir.backend.loops.writer import Writer, indented
from structir.errors import StructIRError


def routine_kernel(group: Group) -> DeviceText | tuple[DeviceText, ...] | None:
    """The texts of a routine, at the stage that runs it."""
    stage = group.stages[0]
    routine = stage.routine
    if routine is None or not routine.runs:
        return None
    if routine.parted:
        raise StructIRError(f"{stage.origin}: kernels that run in parts are for the CPU")
    arrays, sizes = routine.own_names
    names, dims = [*arrays, *sizes], [*routine.sizes]
    work = routine.range
    if routine.spread is not None:
        name, start, stop = routine.spread
        head = f"for {name} in range({start} + cuda.grid(1), {stop}, cuda.gridsize(1)):"
        lines = [head, *routine.lines[1:]]
        work = 1 + sum([buffer.elements for buffer in routine.buffers])
    elif routine.launch is not None:
        lines, work = list(routine.lines), routine.launch[0]
    elif routine.function is None:
        lines = ["if cuda.grid(1) == 0:", *indented(routine.lines)]
    else:
        # by its text a kernel is known: two that only call different functions must not look alike
        told = hashlib.sha256(routine_source(routine.function).encode()).hexdigest()
        lines = [f"# routine: {routine.function.__qualname__} {told[:16]}", *routine.before]
        lines += over_threads("point", "count", routine.lines)
        names, dims = [*names, "count"], [*dims, routine.range]
    text = DeviceText(
        kernel_text(
            [*arrays, *(["report"] if routine.sites else []), *names[len(arrays) :]], lines
        ),
        routine.buffers,
        tuple(dims),
        work,
        routine.scratch,
        stage.origins,
        sites=routine.sites,
        names=tuple(names),
        function=routine.function,
        launch=routine.launch,
    )
    filled = routine.buffers[len(routine.buffers) - routine.zeroed :] if routine.zeroed else ()
    return (*[zeroing(buffer, stage.origins) for buffer in filled], text) if filled else text


def zeroing(buffer: Buffer, origins: tuple[str, ...]) -> DeviceText:
    """Zeros in all elements of a buffer, before many threads write to it."""
    writer = Writer(())
    held = STORED_AS.get(buffer.dtype, buffer.dtype)
    line = f"{writer.pointer(buffer)}[i] = {number_text(0, held)}"
    lines = over_threads("i", writer.size(buffer.elements), [line])
    return device_text(writer, lines, buffer.elements, origins)

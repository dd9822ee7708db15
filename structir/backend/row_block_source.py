"""Generates the source of loops over blocks of rows of ragged tensors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from math import prod
from typing import Any

from structir.backend.cpu.masked_loops import PAIR, WHOLE_VECTORS
from structir.backend.cpu.row_chunks import BEHIND
from structir.backend.cpu.row_functions import (
    EXPANSION,
    SLICES,
    SURVEY,
    reduces_slices,
    reduction_name,
)
from structir.backend.loops.buffer import Buffer, element_bytes
from structir.backend.loops.expression import Load, axis_dim
from structir.backend.loops.from_point import NoKernelError
from structir.backend.loops.rows import row_kernel
from structir.backend.loops.schedule import scheduled
from structir.backend.loops.stage import KernelCall, LoopProgram, Routine, Stage
from structir.backend.loops.writer import INDENT, KernelText, indented
from structir.backend.row_blocks import (
    ROW,
    BlockProgram,
    Phase,
    RowReduction,
    in_blocks,
    reduces_itself,
)
from structir.backend.row_text import RowLoop
from structir.backend.segment_rows import RowCall, RowOperand, row_loop
from structir.ir import dims
from structir.ir.dims import Dim

UNITS = {"first": "values", "row": "row", None: ""}
BLOCK = 2048  # values per block: several buffers of this size fit in L2
ROWS = 256  # maximum per block
SHORT = 128  # maximum mean length of short rows
AT_ONCE = 256  # values between prefetches
CACHE_LINE = 64  # bytes
LOOP = re.compile(r"^( *)for r in range\(lo_\d+, hi_\d+\):$")


def stages_of_rows(call: RowCall) -> list[Stage]:
    """Returns the stages that run a row program for all rows, in blocks if supported."""
    units = {buffer.root: UNITS[operand.unit] for buffer, operand in call.operands.items()}
    one, length = call.sizes
    program = in_blocks(call.program, one, length, units)
    routine: Routine | KernelCall = row_loop(call)  # raises NoKernelError if unsupported
    slices = SliceLoop.of(call)
    if slices is not None:
        routine = slices.routine()
    elif program is not None:
        with suppress(NoKernelError):
            routine = BlockLoop(call, program).routine()
    return call.stages(routine)


class SliceLoop(RowLoop):
    """Generates the reduction of rows of slices."""

    @classmethod
    def of(cls, call: RowCall) -> SliceLoop | None:
        """Returns the loop of a program that is such a reduction and nothing else."""
        (stage, *others), (values, *rest) = call.program.stages, call.operands
        if others or rest or not stage.simple or not isinstance(stage.body, Load):
            return None
        entries, inner = stage.body.entries, prod(values.shape[2:])
        if stage.body.buffer is not values or not reduces_itself(stage):
            return None
        if [*entries[:1], *entries[2:]] != [*stage.write] or len(stage.reduce) != 1:
            return None
        if [axis_dim(axis) for axis in stage.axes if axis in stage.reduce] != [*entries[1:2]]:
            return None
        extents = {axis_dim(axis): extent for axis, extent in stage.extents.items()}
        if [extents.get(entry) for entry in entries] != [*values.shape]:  # type: ignore[arg-type]
            return None
        return cls(call) if reduces_slices(stage.monoid or "", stage.out.dtype, inner) else None

    def routine(self) -> Routine:
        ((values, operand),), ((_, result),) = self.call.operands.items(), self.call.results.items()
        (stage,) = self.call.program.stages
        inner = prod(values.shape[2:])
        name = reduction_name(stage.monoid or "", stage.out.dtype, SLICES)
        tables = [f"offset_by({self.name(t)}, lo)" for t in (self.call.starts, self.call.limits)]
        out = f"offset_by({self.name(result.buffer)}, lo * {inner})"
        args = (self.name(operand.buffer), *tables, out, "hi - lo", self.size(self.total))
        return self.finished([f"{name}({', '.join(args)}, {inner})"])


class BlockLoop(RowLoop):
    """Generates a loop over blocks of rows."""

    def __init__(self, call: RowCall, program: BlockProgram) -> None:
        super().__init__(call)
        self.program = program
        self.shift = ""  # source of the offset of the remainder in a block
        own = {b.root: operand for b, operand in self.parts.items()}
        self.parts |= {flat: own[b] for b, flat in program.flat.items() if b in own}

    def routine(self) -> Routine:
        """Returns the loop; raises NoKernelError if a kernel of a phase has another form."""
        self.starts, self.limits = self.name(self.call.starts), self.name(self.call.limits)
        lines = [f"longest = {SURVEY}({self._tables()}, count, {self._total()})", *self._phases()]
        if not self.program.has_values:
            return self.finished(["row = lo", "count = hi - lo", *lines])
        starts, limits, total = self.starts, self.limits, self.size(self.total)
        head = [
            f"first = larger({starts}[row], 0)",
            f"last = larger(smaller({limits}[row], {total}), first)",
            f"most = smaller(first + {BLOCK}, {total})",
            "count = 1",
            f"while row + count < hi and count < {ROWS} and {starts}[row + count] == last:",
            f"{INDENT}if {limits}[row + count] < last or {limits}[row + count] > most:",
            f"{INDENT * 2}break",
            f"{INDENT}last = {limits}[row + count]",
            f"{INDENT}count = count + 1",
        ]
        body = indented([*head, *lines, "row = row + count"])
        blocks = ["row = lo", "while row < hi:", *body]
        whole = indented(self._row_by_row())
        return self.finished([self._has_long_rows(), *whole, "else:", *indented(blocks)])

    def _has_long_rows(self) -> str:
        """Returns the source of the test for long rows."""
        return f"if {self._total()} > {self._rows()} * {SHORT}:"

    def _total(self) -> str:
        return self.size(self.total)

    def _rows(self) -> str:
        return self.size(self.call.starts.shape[0])

    def _phases(self) -> Iterator[str]:
        """Yields the lines of the phases."""
        programs = list(self.program.programs())
        longest = max([phase.work for phase, _ in programs])
        for phase, program in programs:
            if program is None:
                yield from self._row_functions(phase)
            elif phase.unit == ROW:
                yield from [line for kernel in self._kernels(program) for line in self.body(kernel)]
            else:
                yield from self._maps(program, phase.work == longest)

    def _row_by_row(self) -> list[str]:
        """Returns the loop over long rows, one row at a time."""
        loop = RowLoop(self.call)
        loop.names, loop.sizes, loop.scratch = self.names, self.sizes, self.scratch
        loop.counter = self.counter
        return loop.loop()

    def row_size(self, dim: Dim) -> str:
        """Returns the source of a size of one row or of one block of rows."""
        names = {self.program.values: "extent", self.program.rows: "count"}
        if isinstance(dim, int) or not dims.syms(dim) & names.keys():
            return self.size(dim)
        return dims.python_text(dim, lambda s: names.get(s) or self.size(dims.as_dim(s)))

    def part(self, buffer: Buffer) -> RowOperand:
        """Returns the buffer of all rows that holds a buffer of a row or of a block."""
        if buffer not in self.parts and buffer.origin != "constant":
            is_row = buffer.shape == (dims.as_dim(self.program.rows),)
            size = self.call.starts.shape[0] if is_row else self.total
            scratch = self.new_scratch((size + BEHIND,), buffer.dtype)
            self.parts[buffer] = RowOperand(scratch, None if is_row else "at - first")
        return super().part(buffer)

    def offset(self, part: RowOperand) -> str | None:
        """Returns the number of elements before those of the block."""
        if part.unit in (None, "row"):
            return part.unit
        return ("at" if part.unit == "first" else part.unit) + self.shift

    def _kernels(self, program: LoopProgram) -> list[KernelText]:
        kernels = scheduled(program, rows=row_kernel).kernels
        if any([k.sites or k.function or k.singles for k in kernels]):
            raise NoKernelError("a block of rows needs a kernel of another form")
        return list(kernels)

    def _maps(self, program: LoopProgram, prefetches: bool) -> list[str]:
        """Returns the loop over the values of a block, in whole vectors.

        The last ones are computed with values before them, some of which are computed twice.
        """
        self.shift = " + shift"
        vectors = [line for k in self._kernels(program) for line in _in_vectors(self.body(k))]
        self.shift = ""
        short = [line for k in self._kernels(program) for line in self.body(k)]
        return [
            "at = first",
            "size = last - first",
            f"shift = 0 if size >= {PAIR} else size",
            "while shift < size:",
            *indented(
                [
                    f"extent = smaller({AT_ONCE}, (size - shift) // {PAIR} * {PAIR})",
                    "if extent == 0:",
                    f"{INDENT}shift = size - {PAIR}",
                    f"{INDENT}extent = {PAIR}",
                    *(self._prefetches() if prefetches else ()),
                    *vectors,
                    "shift = shift + extent",
                ]
            ),
            f"if size < {PAIR}:",
            f"{INDENT}extent = size",
            *indented(short),
        ]

    def _prefetches(self) -> list[str]:
        """Returns loops that prefetch operands and results of the next block, while this one is
        computed: the other phases wait for memory."""
        lines = []
        for operand in (*self.call.operands.values(), *self.call.results.values()):
            if operand.unit == "first":
                step = CACHE_LINE // element_bytes(operand.buffer.dtype)
                lines.append(f"for j in range(0, extent, {step}):")
                lines.append(f"{INDENT}prefetch({self.name(operand.buffer)}, last + shift + j)")
        return lines

    def _row_functions(self, phase: Phase) -> list[str]:
        """Returns the calls that reduce the values of rows, or repeat their numbers."""
        return [self._row_function(item) for item in phase.items]

    def _row_function(self, item: Any) -> str:
        places = [self._address(buffer) for buffer in (item.values, item.out)]
        args = ", ".join([places[0], self._tables(), places[1], "count", self._total(), "longest"])
        if isinstance(item, RowReduction):
            return f"{reduction_name(item.monoid, item.out.dtype)}({args})"
        return f"{EXPANSION}({args})"

    def _tables(self) -> str:
        """Returns the addresses of the start and the limit of the first row of a block."""
        return ", ".join([f"offset_by({table}, row)" for table in (self.starts, self.limits)])

    def _address(self, buffer: Buffer) -> str:
        """Returns the address of the number of the first row of a block, or of that of which the
        starts of rows are indices."""
        part = self.part(buffer)
        offset = {"row": "row", "at - first": "-first"}.get(part.unit or "")
        name = self.name(part.buffer)
        return name if offset is None else f"offset_by({name}, {offset})"


def _in_vectors(lines: list[str]) -> list[str]:
    """Returns the lines of a kernel with its loop over whole vectors."""
    changed = [LOOP.sub(rf"\1for r in {WHOLE_VECTORS}(extent):", line) for line in lines]
    if sum([WHOLE_VECTORS in line for line in changed]) != 1:
        raise NoKernelError("a phase is not one loop over values")
    return changed

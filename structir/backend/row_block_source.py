"""Generates the source of loops over blocks of rows of ragged tensors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from structir.backend.cpu.masked_loops import LANES, WHOLE_VECTORS
from structir.backend.cpu.row_totals import LONG_RUN, MONOIDS
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.from_point import NoKernelError
from structir.backend.loops.scalar_text import number_text
from structir.backend.loops.schedule import row_text, scheduled
from structir.backend.loops.stage import LoopProgram, Routine, Stage
from structir.backend.loops.writer import INDENT, KernelText, indented
from structir.backend.row_blocks import ROW, VALUES, BlockProgram, Phase, RowReduction, in_blocks
from structir.backend.segment_rows import RowCall, RowLoop, RowOperand
from structir.ir import dims
from structir.ir.dims import Dim

UNITS = {"first": "values", "row": "row", None: ""}
BLOCK = 2048  # values per block: several buffers of this size fit in L2
ROWS = 64  # maximum per block
SHORT = 128  # maximum mean length of short rows
POINTER = re.compile(r"^(\w+) = offset_by\((\w+), .*\)$")
STORE = re.compile(r"^( *)(\w+)\[r\] = (\w+)$")
COMBINE = {"sum": "add_to", "prod": "multiply_to", "max": "maximum", "min": "minimum"}
LOOP = re.compile(r"^( *)for r in range\(lo_\d+, hi_\d+\):$")
Totals = Sequence[RowReduction]


def _neutral(total: RowReduction) -> str:
    return number_text(MONOIDS[total.monoid][1], total.out.dtype)


def stages_of_rows(call: RowCall) -> list[Stage]:
    """Returns the stages that run a row program for all rows, in blocks if supported."""
    units = {buffer.root: UNITS[operand.unit] for buffer, operand in call.operands.items()}
    one, length = call.sizes
    program = in_blocks(call.program, one, length, units)
    routine = RowLoop(call).routine()  # raises NoKernelError if unsupported
    if program is not None:
        with suppress(NoKernelError):
            routine = BlockLoop(call, program).routine()
    return call.stages(routine)


class BlockLoop(RowLoop):
    """Generates a loop over blocks of rows."""

    def __init__(self, call: RowCall, program: BlockProgram) -> None:
        super().__init__(call)
        self.program = program
        self.flat: set[Buffer] = set()  # buffers whose rows are contiguous
        self.shift = ""  # source of the offset of the remainder in a row
        own = {b.root: operand for b, operand in self.parts.items()}
        self.parts |= {flat: own[b] for b, flat in program.flat.items() if b in own}

    def routine(self) -> Routine:
        """Returns the loop; raises NoKernelError if a kernel of a phase has another form."""
        self.starts, self.limits = self.name(self.call.starts), self.name(self.call.limits)
        lines = list(self._phases())
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
        rows = self.size(self.call.starts.shape[0])
        return f"if {self.size(self.total)} > {rows} * {SHORT}:"

    def _phases(self) -> Iterator[str]:
        """Yields the lines of the phases.

        A reduction of values that depend on a scalar of the row is fused into the loop that
        computes them.
        """
        phases = list(self.program.programs())
        for k, (phase, program) in enumerate(phases):
            if program is None:
                yield from self._reductions(phase) if phase.items else ()
                continue
            totals: list[RowReduction] = []
            if phase.unit == VALUES and any([b in self.program.numbers for b in program.inputs]):
                later = phases[k + 1][0].items if k + 1 < len(phases) else []
                totals = [
                    item
                    for item in later
                    if isinstance(item, RowReduction) and item.values in program.outputs
                ]
                for total in totals:
                    later.remove(total)
            yield from self._maps(phase, program, totals)

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
        if buffer in self.program.numbers:
            part = self.part(self.program.numbers[buffer])
            return RowOperand(part.buffer, "row + k" if part.unit else "k")
        if buffer not in self.parts and buffer.origin != "constant":
            is_row = buffer.shape == (dims.as_dim(self.program.rows),)
            size = self.call.starts.shape[0] if is_row else self.total
            scratch = self.new_scratch((size + ROWS * LANES,), buffer.dtype)
            place = "at - first" if buffer in self.flat else "width"
            self.parts[buffer] = RowOperand(scratch, None if is_row else place)
        return super().part(buffer)

    def offset(self, part: RowOperand) -> str | None:
        """Returns the number of elements before those of the row."""
        if part.unit in (None, "k", "row + k"):
            return part.unit
        return ("at" if part.unit == "first" else part.unit) + self.shift

    def _kernels(self, program: LoopProgram) -> list[KernelText]:
        kernels = scheduled(program, rows=row_text).kernels
        if any([k.sites or k.function or k.singles for k in kernels]):
            raise NoKernelError("a block of rows needs a kernel of another form")
        return list(kernels)

    def _maps(self, phase: Phase, program: LoopProgram, totals: Totals = ()) -> list[str]:
        """Returns the loops over the values of each row, or the loop over rows.

        `totals` are reductions of values of the phase, which the same loops compute.
        """
        if phase.unit == ROW:
            return [line for kernel in self._kernels(program) for line in self.body(kernel)]
        is_flat = not any([b in self.program.numbers for b in program.inputs])
        if is_flat:
            self.flat |= {stage.out for stage in program.stages}
        end = (
            "last" if any([self._is_result(b) for b in program.outputs]) else self.size(self.total)
        )
        names = {total: f"total{k}" for k, total in enumerate(totals)}
        starts = [f"{names[t]} = {_neutral(t)}" for t in totals]
        whole = ["extent = up", *self._vectors(program, names, {})]
        lines = [*self._row(is_flat), *starts, f"if at + up <= {end}:", *indented(whole)]
        lines += ["else:", *indented(self._in_parts(program, names))]
        lines += [f"{self._number(total.out)} = {name}" for total, name in names.items()]
        if is_flat:
            return lines
        return ["width = 0", "for k in range(count):", *indented([*lines, "width = width + up"])]

    def _in_parts(self, program: LoopProgram, totals: Mapping[RowReduction, str]) -> list[str]:
        """Returns a loop over the whole vectors of a row, and one over padded copies of its
        remainder, so that no access is out of bounds."""
        copies = self._copies(program)
        self.shift = " + shift"
        inner = [
            "shift = part * full",
            "extent = full",
            "if part == 1:",
            f"{INDENT}extent = {LANES}",
        ]
        inner += [INDENT + line for b in program.inputs for line in self._copied(b, copies, True)]
        inner += self._vectors(program, totals, copies)
        tail = [line for b in program.outputs for line in self._copied(b, copies, False)]
        inner += ["if part == 1:", *indented(tail)] if tail else []
        self.shift = ""
        return ["for part in range(2):", *indented(inner)]

    def _vectors(
        self,
        program: LoopProgram,
        totals: Mapping[RowReduction, str],
        copies: Mapping[str, str],
    ) -> list[str]:
        lines = []
        for kernel in self._kernels(program):
            lines += self._in_vectors(self.body(kernel), copies)
        return self._with_totals(lines, totals) if totals else lines

    def _with_totals(self, lines: list[str], totals: Mapping[RowReduction, str]) -> list[str]:
        """Returns loops over values that also reduce them; values past the end of the row are
        masked."""
        changed = [f"inside = int32(size{self.shift.replace('+', '-')})"]
        pointers = {m[1]: m[2] for m in map(POINTER.match, lines) if m is not None}
        for line in lines:
            changed.append(line)
            store = STORE.match(line)
            for total, name in totals.items():
                if store and pointers.get(store[2]) == self.name(self.part(total.values).buffer):
                    value = f"{store[3]} if int32(r) < inside else {_neutral(total)}"
                    changed.append(f"{store[1]}{name} = {COMBINE[total.monoid]}({name}, {value})")
        if len(changed) != len(lines) + 1 + len(totals):
            raise NoKernelError("a total is not one of the values of its phase")
        return changed

    def _number(self, buffer: Buffer) -> str:
        """Returns the source of the scalar of row k in a buffer."""
        part = self.part(buffer)
        return f"{self.name(part.buffer)}[{'row + k' if part.unit else 'k'}]"

    def _is_result(self, buffer: Buffer) -> bool:
        return self.part(buffer).unit == "first"

    def _copies(self, program: LoopProgram) -> dict[str, str]:
        """Returns the names of padded scratch buffers for the remainder, by the names of operands
        and results."""
        copies: dict[str, str] = {}
        for buffer in (*program.inputs, *program.outputs):
            part = self.part(buffer)
            if part.unit == "first":
                copy = self.name(self.new_scratch((LANES,), buffer.dtype))
                copies[self.name(part.buffer)] = copy
        return copies

    def _copied(self, buffer: Buffer, copies: dict[str, str], is_read: bool) -> list[str]:
        """Returns a loop that copies the remainder of a row to or from its padded buffer."""
        name = self.name(self.part(buffer).buffer)
        if name not in copies:
            return []
        ends = f"{copies[name]}[j]", f"{name}[at + full + j]"
        to, source = ends if is_read else ends[::-1]
        return ["for j in range(size - full):", f"{INDENT}{to} = {source}"]

    def _in_vectors(self, lines: list[str], copies: Mapping[str, str]) -> list[str]:
        """Returns the lines of a kernel with its loop extended to whole vectors."""
        changed: list[str] = []
        for line in lines:
            loop, pointer = LOOP.match(line), POINTER.match(line)
            if loop is not None:
                changed.append(f"{loop[1]}for r in {WHOLE_VECTORS}(extent):")
            elif pointer is not None and pointer[2] in copies:
                changed.append(f"{line} if part == 0 else {copies[pointer[2]]}")
            else:
                changed.append(line)
        if sum([WHOLE_VECTORS in line for line in changed]) != 1:
            raise NoKernelError("a phase is not one loop over values")
        return changed

    def _row(self, is_flat: bool = False) -> list[str]:
        """Returns lines that define the first value of row k or of a block, and its size rounded to
        whole vectors."""
        start, limit = f"{self.starts}[row + k]", f"{self.limits}[row + k]"
        if is_flat:
            run = ["at = first", "size = last - first"]
        else:
            size = f"smaller({limit}, {self.size(self.total)}) - at"
            run = [f"at = larger({start}, 0)", f"size = larger({size}, 0)"]
        return [
            *run,
            f"full = size // {LANES} * {LANES}",
            f"up = (size + {LANES - 1}) // {LANES} * {LANES}",
        ]

    def _reductions(self, phase: Phase) -> list[str]:
        """Returns loops over the rows of a block that reduce their values, for short and for long
        rows."""
        if self.program.has_values:  # blocks have only short rows
            return self._reduction_loop(phase, "")
        loops = [self._reduction_loop(phase, prefix) for prefix in (LONG_RUN, "")]
        return [self._has_long_rows(), *indented(loops[0]), "else:", *indented(loops[1])]

    def _reduction_loop(self, phase: Phase, prefix: str) -> list[str]:
        lines = self._row()
        for item in phase.items:
            if isinstance(item, RowReduction):
                values = self.part(item.values)
                unit = values.unit or ""
                start = "at" if unit == "first" else unit
                run = f"offset_by({self.name(values.buffer)}, {start})"
                function = f"{prefix}row_{item.monoid}_{item.out.dtype}"
                lines.append(f"{self._number(item.out)} = {function}({run}, size)")
        lines.append("width = width + up")
        return ["width = 0", "for k in range(count):", *indented(lines)]

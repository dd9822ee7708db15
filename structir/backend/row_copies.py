"""Copies of the rows of ragged tensors, row by row: each row is one block of memory.

Values between the rows are set to 0, so that all memory of the result is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from structir.backend.cpu.run_copies import COPY, COPY_TWICE
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.scalar_text import number_text
from structir.backend.loops.stage import Routine, Stage, routine_stages
from structir.backend.loops.writer import INDENT, indented
from structir.ir.dims import Dim
from structir.projections.spec import IndexSpec


def copies_of_rows(
    spec: IndexSpec, operands: Sequence[Buffer], origin: str
) -> tuple[list[Buffer], list[Stage]]:
    """Returns the stages of an op that copies rows of some operands into the rows of its result.

    Three operands each are values, and the start and the limit of each row in them; the last
    operand is the start of each row of the result.
    """
    out = Buffer(spec.results[0].dims, operands[0].dtype)
    routine = _Copies(operands, out).routine()
    return [out], routine_stages(list(dict.fromkeys(operands)), [out], routine, origin)


class _Copies:
    """Generates a loop that copies rows."""

    def __init__(self, operands: Sequence[Buffer], out: Buffer) -> None:
        self.operands, self.out = operands, out
        self.names: dict[Buffer, str] = {}
        self.sizes: dict[Dim, str] = {}
        self.inner = prod(out.shape[1:])

    def routine(self) -> Routine:
        """Returns the loop."""
        *parts, starts = self.operands
        first, rows = self._name(starts), self._size(starts.shape[0])
        room = self._size(self.out.shape[0])
        runs = [tuple(parts[k : k + 3]) for k in range(0, len(parts), 3)]
        copies: list[str] = []
        while runs:
            is_twice = runs[:1] == runs[1:2]
            copies += self._copy(runs[0], is_twice)
            runs = runs[1 + is_twice :]
        copies += [f"next = {room}", f"if row + 1 < {rows}:", f"{INDENT}next = {first}[row + 1]"]
        body = [f"at = {room}", f"if row < {rows}:", f"{INDENT}at = larger({first}[row], 0)"]
        body += ["if row == 0:", *indented(self._fill("0", "at"))]
        body += [f"if row < {rows}:", *indented([*copies, *self._fill("at", "next")])]
        stop = [
            f"stop = {room}",
            f"if hi < {rows}:",
            f"{INDENT}stop = smaller({first}[hi], {room})",
        ]
        return Routine(
            (*stop, "for row in range(lo, hi):", *indented(body)),
            tuple(self.names),
            (),
            tuple(self.sizes),
            (*self.names.values(), *self.sizes.values()),
            range=starts.shape[0] + 1,  # without rows, one iteration zeroes all values
            parted=True,
        )

    def _fill(self, first: str, stop: str) -> list[str]:
        """Returns the loop that zeroes the values between two rows."""
        room, inner = self._size(self.out.shape[0]), self._size(self.inner)
        dtype = self.out.dtype
        zero = number_text(0, dtype) if dtype in ("float32", "float64") else "0"
        return [
            f"for j in range({first} * {inner}, smaller({stop}, {room}) * {inner}):",
            f"{INDENT}{self._name(self.out)}[j] = {zero}",
        ]

    def _copy(self, run: Sequence[Buffer], is_twice: bool) -> list[str]:
        """Returns the copy of a row; one that is copied twice is read once."""
        values, starts, limits = run
        total, room = self._size(values.shape[0]), self._size(self.out.shape[0])
        inner = self._size(self.inner)
        lines = [
            f"first = larger({self._name(starts)}[row], 0)",
            f"length = larger(smaller({self._name(limits)}[row], {total}) - first, 0)",
            f"size = larger(smaller(length, {room} - at), 0)",
            f"to = offset_by({self._name(self.out)}, at * {inner})",
            f"source = offset_by({self._name(values)}, first * {inner})",
        ]
        if not is_twice:
            behind = f"smaller(stop - at, {total} - first) * {inner}"
            return [*lines, f"{COPY}(to, source, size * {inner}, {behind})", "at = at + size"]
        return [
            *lines,
            f"again = larger(smaller(length, {room} - at - size), 0)",
            f"{COPY_TWICE}(to, offset_by(to, size * {inner}), source, again * {inner})",
            f"to = offset_by(to, again * {inner})",
            f"source = offset_by(source, again * {inner})",
            f"{COPY}(to, source, (size - again) * {inner}, 0)",
            "at = at + size + again",
        ]

    def _name(self, buffer: Buffer) -> str:
        return self.names.setdefault(buffer.root, f"all{len(self.names)}")

    def _size(self, dim: Dim) -> str:
        if isinstance(dim, int):
            return str(dim)
        return self.sizes.setdefault(dim, f"size{len(self.sizes)}")

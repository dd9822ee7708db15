"""Ops on the rows of ragged tensors, as loops over rows around the kernel of one row.

An op with the hook `row` computes every row by dense ops: `row(values)` returns their expression
for one row of unknown length. Its kernel, of loops fused and scheduled as those of any program, is
called for each row, on the memory of that row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod

import attrs

from structir.backend.loops.buffer import Buffer
from structir.backend.loops.from_point import NoKernelError
from structir.backend.loops.schedule import scheduled
from structir.backend.loops.stage import LoopProgram, Routine, Stage, routine_stages
from structir.backend.loops.writer import INDENT, KernelText, indented
from structir.ir import dims
from structir.ir.dims import Dim, Sym

HEAD = re.compile(r"^    (\w+) = (\w+_pointer\(a\[(\d+)\]\)|a\[(\d+)\](?: // (\d+))?)$")


@attrs.frozen(eq=False)
class RowProgram:
    """The program of one row, of `length` values; `values` is its input."""

    program: LoopProgram
    length: Sym
    values: Buffer


@attrs.frozen(eq=False)
class SegmentCall:
    """A call for all rows: its buffers, and the program of one row."""

    values: Buffer
    starts: Buffer
    limits: Buffer
    out: Buffer
    row: RowProgram
    origin: str

    def stages(self) -> list[Stage]:
        """Returns the stage that runs the loop over rows."""
        reads = [self.values, self.starts, self.limits]
        routine = RowLoop(self, {self.row.values: self.values}, self.row.program).routine()
        return routine_stages(reads, [self.out], routine, self.origin)


class RowLoop:
    """The text of a loop over rows: `whole` maps buffers of one row to those of all rows."""

    def __init__(
        self, call: SegmentCall, whole: Mapping[Buffer, Buffer], program: LoopProgram
    ) -> None:
        self.call = call
        (result,) = program.outputs
        self.whole = {**whole, result: call.out}
        self.program = program
        self.names: dict[Buffer, str] = {}
        self.sizes: dict[Dim, str] = {}
        self.scratch: list[Buffer] = []

    def routine(self) -> Routine:
        """Returns the loop; raises NoKernelError if one row needs several kernels."""
        kernels = scheduled(self.program).kernels
        if len(kernels) != 1 or kernels[0].sites or kernels[0].function or kernels[0].singles:
            raise NoKernelError("a row needs several kernels")
        starts, limits = self.name(self.call.starts), self.name(self.call.limits)
        total = self.size(self.call.values.shape[0])
        body = self._body(kernels[0])
        lines = [
            "for row in range(lo, hi):",
            f"{INDENT}first = larger({starts}[row], 0)",
            f"{INDENT}length = larger(smaller({limits}[row], {total}) - first, 0)",
            *indented(body),
        ]
        buffers = tuple(self.names)
        ordered = [b for b in buffers if b not in self.scratch] + self.scratch
        slots = {self.names[b]: k for k, b in enumerate(ordered)}
        lines = [re.sub(r"a\[(\w+)\]", lambda m: f"a[{slots[m[1]]}]", line) for line in lines]
        return Routine(
            tuple(lines),
            tuple(ordered),
            tuple(self.scratch),
            tuple(self.sizes),
            (),
            tuple([*[self.names[b] for b in ordered], *self.sizes.values()]),
            range=self.call.starts.shape[0],
            parted=True,
        )

    def name(self, buffer: Buffer) -> str:
        """Returns the name of the address of a buffer of all rows."""
        return self.names.setdefault(buffer.root, f"b{len(self.names)}")

    def size(self, dim: Dim) -> str:
        """Returns a size as text."""
        if isinstance(dim, int):
            return str(dim)
        return self.sizes.setdefault(dim, f"s{len(self.sizes)}")

    def row_size(self, dim: Dim) -> str:
        """Returns a size of one row as text: an expression of its length."""
        if isinstance(dim, int) or self.call.row.length not in dims.syms(dim):
            return self.size(dim)
        length = self.call.row.length
        return dims.python_text(
            dim, lambda s: "length" if s is length else self.size(dims.as_dim(s))
        )

    def _body(self, kernel: KernelText) -> list[str]:
        """Returns the lines of the kernel of one row, on the memory of the row."""
        lines = kernel.text.splitlines()
        start = next(k for k, line in enumerate(lines) if line.startswith("def kernel("))
        body = [f"{INDENT}lo1 = 0", f"{INDENT}hi1 = {self.row_size(kernel.range)}"]
        for line in lines[start + 1 :]:
            if line.strip() == "wide_vectors()":
                continue
            match = HEAD.match(line)
            body += [line] if match is None else [INDENT + self._head(match, kernel)]
        text = "\n".join(body)
        if " a[" in text.replace("// ", "") and HEAD.search(text):
            raise NoKernelError("a kernel of a row reads its table")
        return [re.sub(r"\b(lo|hi)\b", r"\g<1>1", line[len(INDENT) :]) for line in body]

    def _head(self, match: re.Match[str], kernel: KernelText) -> str:
        """Returns the line that names an address or a size in the loop over rows."""
        name, _, pointer, slot, _ = match.groups()
        if pointer is not None:
            buffer = kernel.pointers[int(pointer)]
            whole = self.whole.get(buffer)
            if buffer in kernel.scratch:
                self.scratch.append(buffer)
            base = self.name(whole or buffer)
            return f"{name} = offset_by({base}, {self._offset(buffer)})"
        index = int(slot)
        if index < len(kernel.pointers):
            buffer = kernel.pointers[index]
            base, divisor = self.name(self.whole.get(buffer) or buffer), match[5]
            return f"{name} = a[{base}] // {divisor} + {self._offset(buffer)}"
        return f"{name} = {self.row_size(kernel.sizes[index - len(kernel.pointers)])}"

    def _offset(self, buffer: Buffer) -> str:
        """Returns the number of elements before those of the row."""
        if buffer not in self.whole:
            return "0"
        whole = self.whole[buffer]
        inner = self.size(prod(whole.shape[1:]))
        return f"{'first' if len(buffer.shape) == len(whole.shape) else 'row'} * {inner}"


def with_segments(stages: Sequence[Stage], calls: Mapping[Stage, SegmentCall]) -> list[Stage]:
    """Returns stages with the producers of values that nothing else reads fused into the rows."""
    return list(stages)


Lower = Callable[[Dim], RowProgram]

"""Generates the loop over the rows of a program whose kernels are text, for blocks of rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from structir.backend.loops.buffer import Buffer
from structir.backend.loops.from_point import NoKernelError
from structir.backend.loops.rows import row_kernel
from structir.backend.loops.schedule import scheduled
from structir.backend.loops.stage import Routine
from structir.backend.loops.writer import INDENT, KernelText, indented
from structir.backend.segment_rows import RowCall, RowOperand
from structir.ir import dims
from structir.ir.dims import Dim

ASSIGNED = re.compile(
    r"^ *(\w+) = ", re.MULTILINE
)  # local names, which may occur in several kernels
HEAD = re.compile(r"^    (\w+) = (\w+_pointer\(a\[(\d+)\]\)|a\[(\d+)\])$")


class RowLoop:
    """Generates a loop over rows."""

    def __init__(self, call: RowCall) -> None:
        self.call = call
        self.parts = {**call.operands, **call.results}
        (self.one, _), (self.length, self.total) = call.sizes.items()
        self.names: dict[Buffer, str] = {}
        self.sizes: dict[Dim, str] = {}
        self.scratch: list[Buffer] = []
        self.counter = 0

    def routine(self) -> Routine:
        """Returns the loop; raises NoKernelError if a kernel of a row has another form."""
        return self.finished(self.loop())

    def loop(self) -> list[str]:
        """Returns the lines of the loop."""
        kernels = scheduled(self.call.program, rows=row_kernel).kernels
        if any([k.assembled or k.function or k.singles for k in kernels]):
            raise NoKernelError("a row needs a kernel of another form")
        starts, limits = self.name(self.call.starts), self.name(self.call.limits)
        total = self.size(self.total)
        lines = [
            "for row in range(lo, hi):",
            f"{INDENT}first = larger({starts}[row], 0)",
            f"{INDENT}length = larger(smaller({limits}[row], {total}) - first, 0)",
        ]
        for kernel in kernels:
            lines += indented(self.body(kernel))
        return lines

    def finished(self, lines: list[str]) -> Routine:
        """Returns the routine of some lines."""
        ordered = [b for b in self.names if b not in self.scratch] + self.scratch
        return Routine(
            tuple(lines),
            tuple(ordered),
            tuple(self.scratch),
            tuple(self.sizes),
            tuple([*[self.names[b] for b in ordered], *self.sizes.values()]),
            range=self.call.starts.shape[0],
            parted=True,
        )

    def name(self, buffer: Buffer) -> str:
        """Returns the name of the address of a buffer of all rows."""
        return self.names.setdefault(buffer.root, f"all{len(self.names)}")

    def size(self, dim: Dim) -> str:
        """Returns the source of a size."""
        if isinstance(dim, int):
            return str(dim)
        return self.sizes.setdefault(dim, f"size{len(self.sizes)}")

    def row_size(self, dim: Dim) -> str:
        """Returns the source of a size of one row, which may depend on its length."""
        dim = dims.substitute(dim, {self.one: 1})
        if isinstance(dim, int) or self.length not in dims.syms(dim):
            return self.size(dim)
        return dims.python_text(
            dim, lambda s: "length" if s is self.length else self.size(dims.as_dim(s))
        )

    def body(self, kernel: KernelText) -> list[str]:
        """Returns the lines of a kernel of one row, on the memory of the row."""
        lines = kernel.text.splitlines()
        start = next(k for k, line in enumerate(lines) if line.startswith("def kernel("))
        self.counter += 1
        own = f"_{self.counter}"
        body = [f"lo{own} = 0", f"hi{own} = {self.row_size(kernel.range)}"]
        for line in lines[start + 1 :]:
            match = HEAD.match(line)
            if match is not None:
                name, text = self._head(match, kernel)
                body.append(f"{name} = {text}")
            elif line.strip() and line.strip() != "wide_vectors()":
                if "a[" in re.sub(r"\w+a\[", "", line):
                    raise NoKernelError("a kernel of a row reads its table")
                body.append(re.sub(r"\b(lo|hi)\b", rf"\g<1>{own}", line[len(INDENT) :]))
        return with_own_names(body, own)

    def _head(self, match: re.Match[str], kernel: KernelText) -> tuple[str, str]:
        """Returns a parameter of the kernel, and the source of its address or size in the loop."""
        name, _, pointer, slot = match.groups()
        if pointer is None:
            return name, self.row_size(kernel.sizes[int(slot) - len(kernel.pointers)])
        part = self.part(kernel.pointers[int(pointer)])
        base, offset = self.name(part.buffer), self.offset(part)
        return name, base if offset is None else f"offset_by({base}, {offset})"

    def part(self, buffer: Buffer) -> RowOperand:
        """Returns the buffer of all rows that holds a buffer of a row; temporaries are allocated
        for all rows."""
        if buffer not in self.parts:
            shape = tuple([dims.substitute(d, self.call.sizes) for d in buffer.shape])
            is_constant = buffer.origin == "constant"
            part = buffer if is_constant else self.new_scratch(shape, buffer.dtype)
            self.parts[buffer] = RowOperand(part)
        return self.parts[buffer]

    def new_scratch(self, shape: tuple[Dim, ...], dtype: str) -> Buffer:
        """Returns a new scratch buffer of the loop."""
        self.scratch.append(Buffer(shape, dtype, "scratch"))
        return self.scratch[-1]

    def offset(self, part: RowOperand) -> str | None:
        """Returns the number of elements before those of the row."""
        if part.unit is None:
            return None
        inner = prod(part.buffer.shape[1:])
        return part.unit if inner == 1 else f"{part.unit} * {self.size(inner)}"


def with_own_names(lines: Sequence[str], own: str) -> list[str]:
    """Returns lines with the suffix `own` on all assigned names, so that each name is assigned once
    and keeps its SSA form."""
    text = "\n".join(lines)
    names = {name for name in ASSIGNED.findall(text) if not name.endswith(own)}
    if not names:
        return [*lines]
    pattern = re.compile(rf"\b({'|'.join(sorted(names))})\b")
    return pattern.sub(rf"\g<1>{own}", text).split("\n")

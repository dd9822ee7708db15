"""The texts of kernels for a GPU: what a thread does, and over what threads and blocks are
spread."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import attrs

from structir.backend.loops.writer import KernelText, Writer, indented
from structir.ir.dims import Dim

THREADS = 256  # of a block, where the text leaves it open
SIDE = 16  # of the square that they are, where tiles are made by such


@attrs.frozen
class OperandStrides:
    """How an operand of a product lies in memory: where it starts, and how far apart neighbours
    are along the outer axes, its first one and its second one."""

    pointer: int  # which one of the kernel's
    start: Dim
    outer: tuple[Dim, ...]
    first: Dim
    second: Dim


@attrs.frozen
class Product:
    """out[outer, m, n] = sum over k of left[outer, m, k] * right[outer, k, n], which a library may
    make in the kernel's place; with an epilogue, `bias` is added to that, then a function applied
    (relu, or gelu by tanh)."""

    dtype: str
    m: Dim
    n: Dim
    k: Dim
    outer: tuple[Dim, ...]
    left: OperandStrides
    right: OperandStrides
    out: OperandStrides
    epilogue: str = ""  # bias, relu, bias_relu, gelu or bias_gelu
    bias: OperandStrides | None = None  # of the product's dtype


@attrs.frozen(slots=False)
class DeviceText(KernelText):
    """A kernel for a GPU. Its parameters are the pointers, then, if it may fail, that to the words
    of its report, then the sizes.

    Each of `range` items is one thread's, or with `width` one block's, whose threads share loops
    that long. Of scratch, each block has a part of its own.
    """

    width: Dim | None = None
    product: Product | None = None
    apart: bool = False  # whether no thread reads what another one writes
    launch: tuple[Dim, int] | None = None  # blocks, and threads of each, where the program says it
    resident: int = 1  # blocks for which a multiprocessor has to have registers at once
    square: bool = False  # whether an item is a block's, whose threads have the sides of a square
    warps: int = 0  # or whose threads are so many whole warps,
    any_warps: bool = False  # or as many as there are

    @cached_property
    def known_as(self) -> str:
        """The text, with all else that its machine code depends on: elements of other dtypes may be
        read by the same words."""
        dtypes = ", ".join([buffer.dtype for buffer in self.pointers])
        ways = ", ".join(["apart"] * self.apart + ["exact"] * self.is_exact)
        return f"{self.text}# {dtypes}; {self.most_threads}, {self.resident}; {ways}\n"

    @property
    def most_threads(self) -> int:
        """How many threads a block has at most."""
        return THREADS if self.launch is None else self.launch[1]

    @property
    def is_exact(self) -> bool:
        """Whether every operation is rounded by itself, as kernels of the program and routines
        want it."""
        return bool(self.names)


def device_text(
    writer: Writer,
    lines: Iterable[str],
    extent: Dim,
    origins: tuple[str, ...],
    width: Dim | None = None,
) -> DeviceText:
    """The whole text over what a writer has named."""
    scratch = tuple([b for b in writer.scratch if b in writer.pointers])
    head = [_own_part(writer.pointers[b], writer.size(b.elements)) for b in scratch]
    names = [*writer.pointers.values(), *writer.size_names.values()]
    return DeviceText(
        kernel_text(names, [*head, *lines]),
        tuple(writer.pointers),
        tuple(writer.size_names),
        extent,
        scratch,
        origins,
        width=width,
    )


def kernel_text(names: Iterable[str], lines: Iterable[str]) -> str:
    """The text of a kernel with these parameters."""
    return "\n".join([f"def kernel({', '.join(names)}):", *indented(lines), ""])


def _own_part(pointer: str, size: str) -> str:
    return f"{pointer} = offset_by({pointer}, cuda.blockIdx.x * {size})"


def over_threads(name: str, count: str, lines: Iterable[str]) -> list[str]:
    """Lines for each of so many items, spread over all threads of all blocks."""
    head = f"for {name} in range(cuda.grid(1), {count}, cuda.gridsize(1)):"
    return [head, *indented(lines)]


def over_blocks(name: str, count: str, lines: Iterable[str]) -> list[str]:
    """Lines for each of so many items, spread over blocks."""
    head = f"for {name} in range(cuda.blockIdx.x, {count}, cuda.gridDim.x):"
    return [head, *indented(lines)]


def within_block(name: str, count: str, lines: Iterable[str]) -> list[str]:
    """Lines for each of so many items, spread over the threads of a block."""
    head = f"for {name} in range(cuda.threadIdx.x, {count}, cuda.blockDim.x):"
    return [head, *indented(lines)]

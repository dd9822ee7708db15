"""Sources of GPU kernels: the statements of a thread, and the iteration space over threads and
blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from structir.ir.dims import Dim
from structir.loops.program.kernel_text import KernelText
from structir.system.locks import cached_property
from structir.targets.cuda.writer import Writer, indented

THREADS = 256  # per block, unless the source sets it
SIDE = 16  # threads per side of a square block, for tiled kernels
AT_ONCE = 4  # items of a thread whose loads are in flight together
LONGEST = 24  # lines of longer loops are not repeated


@attrs.frozen
class OperandStrides:
    """The strides of a product's operand: its offset, and the strides of the outer axes, its first
    and its second axis."""

    pointer: int  # the index of the kernel's pointer
    start: Dim
    outer: tuple[Dim, ...]
    first: Dim
    second: Dim


@attrs.frozen
class Product:
    """out[outer, m, n] = sum over k of left[outer, m, k] * right[outer, k, n], which a library may
    compute in place of the kernel. An epilogue adds `bias` and applies a function (relu, or gelu by
    tanh)."""

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
    """The source of a GPU kernel. Its parameters are the pointers, a pointer to the error report if
    it may fail, then the sizes.

    Each of `range` items runs on one thread, or with `width` on one block, whose threads share
    loops of that length. Each block has its own scratch memory.
    """

    width: Dim | None = None
    product: Product | None = None
    apart: bool = False  # whether no thread reads what another one writes
    launch: tuple[Dim, int] | None = None  # blocks and threads per block, if the program sets them
    resident: int = 1  # blocks per multiprocessor that must fit into its registers
    square: bool = False  # whether an item runs on a square block
    warps: int = 0  # or on a block of this number of warps,
    any_warps: bool = False  # or of any number of warps

    @cached_property
    def known_as(self) -> str:
        """The source with everything else that its machine code depends on: the same source may
        read elements of other dtypes."""
        dtypes = ", ".join([buffer.dtype for buffer in self.pointers])
        ways = ", ".join(["apart"] * self.apart + ["exact"] * self.is_exact)
        return f"{self.text}# {dtypes}; {self.most_threads}, {self.resident}; {ways}\n"

    @property
    def most_threads(self) -> int:
        """The largest number of threads of a block."""
        return THREADS if self.launch is None else self.launch[1]

    @property
    def is_exact(self) -> bool:
        """Whether every operation is rounded separately, as kernels of the program and routines
        require."""
        return bool(self.names)


def device_text(
    writer: Writer,
    lines: Iterable[str],
    extent: Dim,
    origins: tuple[str, ...],
    width: Dim | None = None,
) -> DeviceText:
    """Returns the complete source over the names of a writer."""
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
    """Returns the source of a kernel with these parameters."""
    return "\n".join([f"def kernel({', '.join(names)}):", *indented(lines), ""])


def _own_part(pointer: str, size: str) -> str:
    return f"{pointer} = offset_by({pointer}, cuda.blockIdx.x * {size})"


def over_threads(name: str, count: str, lines: Iterable[str]) -> list[str]:
    """Returns lines that run for each item, distributed over all threads of all blocks."""
    head = f"for {name} in range(cuda.grid(1), {count}, cuda.gridsize(1)):"
    return [head, *indented(lines)]


def over_blocks(name: str, count: str, lines: Iterable[str]) -> list[str]:
    """Returns lines that run for each item, distributed over blocks."""
    head = f"for {name} in range(cuda.blockIdx.x, {count}, cuda.gridDim.x):"
    return [head, *indented(lines)]


def within_block(name: str, count: str, lines: Sequence[str]) -> list[str]:
    """Returns lines that run for each item, distributed over the threads of a block."""
    return strided(name, "cuda.threadIdx.x", count, "cuda.blockDim.x", lines)


def strided(name: str, first: str, count: str, step: str, lines: Sequence[str]) -> list[str]:
    """Returns lines that run for every `step`-th item from `first` on. Where the lines are few,
    AT_ONCE items are computed together: a thread then waits once for their loads."""
    if len(lines) > LONGEST:
        return [f"for {name} in range({first}, {count}, {step}):", *indented(lines)]
    each = [*lines, f"{name} = {name} + {step}"]
    return [
        f"{name} = {first}",
        f"while {name} + {AT_ONCE - 1} * {step} < {count}:",
        *indented(unrolled("item", AT_ONCE, each)),
        f"while {name} < {count}:",
        *indented(each),
    ]


def unrolled(name: str, count: int, lines: Sequence[str]) -> list[str]:
    """Returns lines for each number, unrolled."""
    return [f"for {name} in unrolled({count}):", *indented(lines)]

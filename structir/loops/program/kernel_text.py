"""The kernels of a plan: what each one reads from its table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from structir.ir.dims import Dim
from structir.loops.program.buffer import Buffer
from structir.loops.program.cost import KernelWork


class MissingCodeError(Exception):
    """A kernel that was read from a file has no machine code, and its source is not compiled."""


@attrs.frozen
class KernelText:
    """The source of a kernel, and the contents of its table: addresses, then sizes.

    It runs over [0, range). `scratch` are the buffers that exist only inside it. A kernel that may
    fail at `sites` has words after its table for the site and the reason. The source of a kernel
    that was read `from_file` is only a key of machine code: it is never compiled.
    """

    text: str
    pointers: tuple[Buffer, ...]
    sizes: tuple[Dim, ...]
    range: Dim
    scratch: tuple[Buffer, ...] = ()
    origins: tuple[str, ...] = ()
    sites: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()  # of pointers and sizes, where they are not p0, p1, ..., n0, ...
    function: Any = None  # of Python, which the kernel calls: on the CPU a `PointKernel`
    singles: int = 0  # the number of last sizes that are the bits of float32 numbers
    has_phases: bool = False  # whether the last sizes are those of layouts.PHASE
    # the work of a kernel with nodes; None for a function of Python
    estimate: Callable[[], KernelWork] | None = attrs.field(default=None, eq=False)
    from_file: bool = attrs.field(default=False, eq=False)
    assembled: Any = attrs.field(default=None, eq=False)  # LLVM IR, which the source only names

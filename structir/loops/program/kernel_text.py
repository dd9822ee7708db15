"""The kernels of a plan: what each one reads from its table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from structir.errors import Diagnostic
from structir.ir.dims import Dim
from structir.loops.program.buffer import Buffer
from structir.loops.program.cost import KernelWork


class MissingCodeError(Exception):
    """A kernel that was read from a file has no machine code, and its source is not compiled."""


@attrs.frozen
class KernelText:
    """The key of a kernel's machine code, and the contents of its table: addresses, then sizes.

    It runs over [0, range). `scratch` are the buffers that exist only inside it. A kernel that may
    fail at `sites` has words after its table for the site and the reason. A kernel that was read
    `from_file` has no code: only its machine code can run.
    """

    key: str  # a hash of the code if there are nodes, the source elsewhere
    pointers: tuple[Buffer, ...]
    sizes: tuple[Dim, ...]
    range: Dim
    scratch: tuple[Buffer, ...] = ()
    origins: tuple[str, ...] = ()
    sites: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()  # of pointers and sizes, if there is no code
    function: Any = None  # of Python, which the kernel calls: on the CPU a `PointKernel`
    singles: int = 0  # the number of last sizes that are the bits of float32 numbers
    has_phases: bool = False  # whether the last sizes are those of layouts.PHASE
    rejection: Diagnostic | None = None  # of the op, if its function rejects values
    # the work of a kernel with nodes; None for a function of Python
    estimate: Callable[[], KernelWork] | None = attrs.field(default=None, eq=False)
    from_file: bool = attrs.field(default=False, eq=False)
    code: Any = attrs.field(default=None, eq=False)  # a KernelCode, if there are nodes

    @property
    def text(self) -> str:
        """The source. It starts with the key."""
        return self.key if self.code is None else f"{self.key}\n{self.code.kernel.script()}"

    @property
    def parameters(self) -> Sequence[str]:
        """The names of the pointers and sizes."""
        if self.code is not None:
            return self.code.names  # type: ignore[no-any-return]
        pointers = [f"p{k}" for k in range(len(self.pointers))]
        return self.names or [*pointers, *[f"n{k}" for k in range(len(self.sizes))]]

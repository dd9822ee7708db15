"""Kernels that call a function of Python at each point: numba compiles the calls from nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from structir.lazy import lazy_module
from structir.loops.program.point_text import PointText
from structir.loops.program.routine import Routine
from structir.system.cache import digest
from structir.system.locks import cached_property
from structir.targets.cpu.code_generation import Assembled
from structir.targets.cpu.functions import routine_source
from structir.targets.cpu.objects import SOURCE_HEAD

point_translation = lazy_module("structir.targets.cpu.point_translation")
metadata = lazy_module("importlib.metadata")


@attrs.frozen(eq=False, slots=False)
class PointKernel:
    """The kernel of a routine, over a table of its buffers and sizes."""

    routine: Routine

    @property
    def function(self) -> Callable[..., Any]:
        """The function that it calls."""
        return self.routine.function

    @cached_property
    def assembled(self) -> Assembled | None:
        """The kernel in LLVM IR; None if only numba can compile it."""
        return point_translation.assembled_routine(self.routine)  # type: ignore[no-any-return]

    @property
    def source(self) -> str:
        """The calls and the function, for readers. It starts with a hash of all of it."""
        text = PointText(self.routine)
        calls = ["for point in range(lo, hi):", *[f"    {line}" for line in text.lines()]]
        lines = [*text.arrays_at(), *calls, *routine_source(self.function).split("\n")]
        shown = "".join([f"# {line}".rstrip() + "\n" for line in lines])
        dtypes = [buffer.dtype for buffer in self.routine.buffers]
        return f"{SOURCE_HEAD}{digest(shown, metadata.version('numba'), *dtypes)[:32]}\n{shown}"

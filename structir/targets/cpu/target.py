"""The CPU as a target of `structir.compile`."""

from structir.ir.module import IRModule
from structir.runtime.executable import Executable


def executable(
    module: IRModule,
    num_threads: int | None = None,
    exact_division: bool = False,
    fast_math: bool = False,
) -> Executable:
    """Compiles a module for the CPU; `structir.compile` describes the options."""
    return Executable(module, num_threads, exact_division=exact_division, fast_math=fast_math)

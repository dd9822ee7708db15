"""The CPU as a target of `structir.compile`."""

from __future__ import annotations

from functools import partial

from structir.backend.cached_plans import FunctionStore
from structir.backend.eager import EagerExecutable
from structir.backend.executable import Executable
from structir.ir.module import IRModule


def executable(
    module: IRModule,
    num_threads: int | None = None,
    store: FunctionStore | None = None,
    exact_division: bool = False,
    eager_first: bool = False,
) -> Executable | EagerExecutable:
    """Returns a compiled module, or with `eager_first` one that a thread compiles."""
    make = partial(Executable, module, num_threads, store, exact_division)
    return EagerExecutable(module, make) if eager_first else make()

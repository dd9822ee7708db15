"""Measures the kernels of a schedule."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from structir.interpret.arguments import random_values
from structir.ir.expr import Var
from structir.ir.module import IRModule
from structir.lazy import lazy_module

if TYPE_CHECKING:
    from structir.runtime.profile import Profile

compilation = lazy_module("structir.targets.compile")
profiling = lazy_module("structir.runtime.profile")
SIZE = 64  # of symbolic dims without a size


def measure(
    module: IRModule,
    name: str,
    params: Sequence[Var],
    args: Sequence[Any],
    sizes: Mapping[str, int],
    repeat: int,
) -> Profile:
    """Returns the CPU time of each kernel of a function in one thread, on these arguments or on
    random ones."""
    values = list(args) or random_values(params, 0, sizes, among=(SIZE,))
    executable = compilation.compile(module, num_threads=1)
    # an entry that is looked up before profiling runs without instrumentation
    profile = profiling.profile_calls(lambda: executable[name](*values), repeat, time.process_time)
    profile = attrs.evolve(profile, left=executable.fallbacks)
    result: Profile = profile
    return result

"""Loading of numba's function registries: first those that kernels need, others on demand.

Before it compiles a function, numba imports all modules that fill its registries. It reads them
again for each new intrinsic. Kernels need only numbers, tuples and intrinsics.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from numba.core.registry import cpu_target

from structir.interrupts import defer_interrupts
from structir.lazy import lazy_module
from structir.targets.cpu.library import store_code_uninterrupted

mathimpl = lazy_module("numba.cpython.mathimpl")
npyimpl = lazy_module("numba.np.npyimpl")
numbers = lazy_module("numba.cpython.numbers")
tupleobj = lazy_module("numba.cpython.tupleobj")
numba_builtins = lazy_module("numba.cpython.builtins")

_is_complete = False


def read_all() -> bool:
    """Loads all registries; returns False if they were loaded before."""
    global _is_complete
    if _is_complete:
        return False
    context: Any = cpu_target.target_context
    with defer_interrupts(), _refreshed_by(_read_nothing, context):
        type(context).refresh(context)
        store_code_uninterrupted(context.codegen())
        _is_complete = True
    return True


def all_read() -> bool:
    """Whether all registries have been loaded."""
    return _is_complete


def _read_nothing(context: Any) -> None:
    """Does nothing: replaces the nested refresh that numba repeats for each template."""


@contextmanager
def _refreshed_by(read: Any, *contexts: Any) -> Iterator[None]:
    before = [vars(context).get("refresh") for context in contexts]
    for context in contexts:
        context.refresh = partial(read, context)
    try:
        yield
    finally:
        for context, refresh in zip(contexts, before, strict=True):
            if refresh is None:
                del context.refresh
            else:
                context.refresh = refresh

"""numba's registries of functions, all read once.

numba reads all of its registries again before it compiles a function, and whenever it meets an
intrinsic for the first time, which takes milliseconds. After the first time, new functions that
kernels call can only be our own intrinsics.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from numba.core.imputils import builtin_registry
from numba.core.registry import cpu_target
from numba.core.typing.templates import builtin_registry as typing_registry


@contextmanager
def registries_read(context: Any) -> Iterator[None]:
    """Reads numba's registries; in this context, no registry is read in full again.

    The caller holds numba's compiler lock. Other code that numba compiles is not affected.
    """
    _read_all()
    _read_new(context)
    contexts = (context, cpu_target.target_context)
    before = [vars(c).get("refresh") for c in contexts]
    for one in contexts:
        vars(one)["refresh"] = partial(_read_new, one)
    try:
        yield
    finally:
        for one, refresh in zip(contexts, before, strict=True):
            if refresh is None:
                vars(one).pop("refresh", None)
            else:
                vars(one)["refresh"] = refresh


@cache
def _read_all() -> None:
    context: Any = cpu_target.target_context
    context.refresh()


def _read_new(context: Any) -> None:
    """Reads the registries to which numba adds intrinsics: the first one of the target, by the
    order in which numba has read them, and that of built-in functions."""
    context.install_registry(next(iter(context._registries)))
    context.install_registry(builtin_registry)
    context.typing_context.install_registry(typing_registry)

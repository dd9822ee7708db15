"""Loading of numba's function registries: first those that kernels need, others on demand.

Before it compiles a function, numba imports all modules that fill its registries. It reads them
again for each new intrinsic. Kernels need only numbers, tuples and intrinsics.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from numba.core.imputils import builtin_registry
from numba.core.registry import cpu_target
from numba.core.typing.templates import builtin_registry as typing_registry

from structir.interrupts import defer_interrupts
from structir.lazy import lazy_module
from structir.targets.cpu.library import store_code_uninterrupted

mathimpl = lazy_module("numba.cpython.mathimpl")
npyimpl = lazy_module("numba.np.npyimpl")
numbers = lazy_module("numba.cpython.numbers")
tupleobj = lazy_module("numba.cpython.tupleobj")
numba_builtins = lazy_module("numba.cpython.builtins")

_is_complete = False


@contextmanager
def registries_read(context: Any) -> Iterator[None]:
    """Loads the registries that kernels need; within the context, numba loads only new intrinsics.

    The caller holds numba's compiler lock. Other code that numba compiles is not affected.
    """
    _read_common()
    _read_new(context)
    with _refreshed_by(_read_new, context, cpu_target.target_context):
        yield


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


@cache
def _read_common() -> None:
    with defer_interrupts():
        _read_common_registries(cpu_target.target_context)
        store_code_uninterrupted(cpu_target.target_context.codegen())


def _read_common_registries(context: Any) -> None:
    for module in (numba_builtins, numbers, tupleobj):
        module.__name__  # noqa: B018 (imports the module, which fills the built-in registry)
    for registry in (mathimpl.registry, npyimpl.registry, builtin_registry):
        context.install_registry(registry)
    with _refreshed_by(_read_nothing, context):
        context.typing_context.refresh()


def _read_new(context: Any) -> None:
    """Loads the registries to which numba adds intrinsics: the target's first one in load order,
    and that of built-in functions."""
    context.install_registry(next(iter(context._registries)))
    context.install_registry(builtin_registry)
    context.typing_context.install_registry(typing_registry)


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

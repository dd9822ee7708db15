"""Routines written for the CPU that a GPU thread can run, too."""

from __future__ import annotations

import dis
from collections.abc import Callable
from typing import Any

from structir.targets.cpu.functions import transitive_callees

# A thread cannot allocate, view arrays in another form, or raise.
HOST_ATTRIBUTES = frozenset(
    {"asarray", "atleast_1d", "copy", "empty", "max", "min", "ndindex", "ravel", "sum", "zeros"}
)
FAILING = "RAISE_VARARGS"


def device_routine(definition: Any) -> Callable[..., Any] | None:
    """Returns the GPU routine of an op whose index signature does not give its values: its own, or
    the CPU's if that neither allocates nor raises and the op has no decomposition, which uses more
    threads."""
    own: Callable[..., Any] | None = definition.hooks.get("kernel.cuda")
    host: Callable[..., Any] | None = definition.hooks.get("kernel.cpu")
    is_used = host is not None and "decompose" not in definition.hooks and is_portable(host)
    return own or (host if is_used else None)


def is_portable(function: Callable[..., Any]) -> bool:
    """Whether a thread can run a function unchanged."""
    return all(_is_plain(called) for called in transitive_callees(function))


def _is_plain(function: Any) -> bool:
    instructions = list(dis.get_instructions(function))
    attributes = {i.argval for i in instructions if i.opname in ("LOAD_ATTR", "LOAD_METHOD")}
    fails = any(i.opname == FAILING for i in instructions)
    return not fails and not attributes & HOST_ATTRIBUTES

"""Handwritten kernels: the order and the tiles of their loops are chosen by a recipe."""

from __future__ import annotations

from typing import Any

from structir.ir.kernel import (
    Assign,
    Element,
    For,
    Kernel,
    KernelStatement,
    LibraryCall,
    Part,
    Prefetch,
    Scratch,
    nodes_of,
)
from structir.loops.handle import KernelHandle
from structir.loops.program.kernel_table import table_of
from structir.loops.recipes import find_recipe
from structir.loops.schedule.loop_tree import blocks_of
from structir.loops.schedule.refusal import ScheduleError


def scheduled_nests(kernel: Kernel) -> Kernel:
    """Returns a handwritten kernel with its nests scheduled; memoized.

    A kernel that is already scheduled is returned as it is: one with parts, vector loops, library
    calls, or arrays in registers.
    """
    memo: dict[str, Any] = kernel.__dict__
    if "_scheduled" not in memo:
        memo["_scheduled"] = _scheduled(kernel) if _has_nests(kernel) else kernel
    return memo["_scheduled"]  # type: ignore[no-any-return]


def _scheduled(kernel: Kernel) -> Kernel:
    try:
        handle = KernelHandle(kernel, exact=True)
        find_recipe("nests")(handle)
    except ScheduleError:  # loops that no proof considers
        return kernel
    return handle.node if handle.is_changed() else kernel


def _has_nests(kernel: Kernel) -> bool:
    """Whether a kernel of known sizes stores elements in nested loops, none of them scheduled."""
    is_nested = any(_is_nest(statement) for statement in kernel.body)
    is_known = is_nested and table_of(kernel).infos == [p.struct_info for p in kernel.params]
    return is_known and not any(map(_is_scheduled, nodes_of(kernel)))


def _is_scheduled(node: object) -> bool:
    match node:
        case Part() | LibraryCall() | Prefetch():
            return True
        case Scratch():
            return bool(node.space)
        case For():
            return bool(node.kind)
        case Assign():
            return node.non_temporal
    return False


def _is_nest(statement: KernelStatement, depth: int = 0) -> bool:
    """Whether a statement stores an element in two loops."""
    if isinstance(statement, Assign):
        return depth > 1 and isinstance(statement.target, Element)
    inner = depth + isinstance(statement, For)
    return any(_is_nest(s, inner) for block in blocks_of(statement) for s in block)

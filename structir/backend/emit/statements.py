"""Emits assignments, local arrays and control flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.backend.emit.conversions import store
from structir.backend.emit.emitter import Emitter
from structir.backend.emit.scalars import outer_offset, pointer
from structir.backend.emit.types import STORED
from structir.backend.loops.buffer import element_bytes
from structir.backend.loops.kernel_table import dtype_of
from structir.ir import dims
from structir.ir.expr import Var
from structir.ir.kernel import (
    Assign,
    Branch,
    Break,
    Continue,
    Element,
    KernelStatement,
    Local,
    Part,
    Prefetch,
    Scratch,
    While,
    assigned_value,
)

# for a read, into all levels of the cache, of data
PREFETCH = (("i32", "0"), ("i32", "3"), ("i32", "1"))
NON_TEMPORAL = ", align 64, !nontemporal !0"  # the loop starts at a cache line


def _assign(emitter: Emitter, assign: Assign) -> None:
    target = assign.target
    if isinstance(target, Local):
        emitter.set_local(target, emitter.scalar(assigned_value(assign)))
        emitter.ranges.assigned(assign)
        return
    mark = NON_TEMPORAL if target in emitter.streaming else ""
    dtype = dtype_of(target.array)
    if assign.symbol:
        place = pointer(emitter, target)
        with emitter.with_pointer(target, place):
            value = emitter.scalar(assigned_value(assign))
    else:
        value = emitter.scalar(assign.value)
        place = pointer(emitter, target)
    store(emitter.asm, value, place, dtype, mark)


def _part(emitter: Emitter, part: Part) -> None:
    """The ends of a part, which the kernel receives; those of the whole range where the kernel
    first sets its results to zero."""
    emitter.ranges.parted(part)
    emitter.set_local(part.low, "0" if emitter.is_whole else "%lo")
    emitter.set_local(part.high, emitter.size(part.extent) if emitter.is_whole else "%hi")


def _scratch(emitter: Emitter, scratch: Scratch) -> None:
    """A local array, whose sizes must not be negative."""
    if scratch.array in emitter.registers:
        emitter.allocate_registers(scratch.array)
        return
    for axis, dim in enumerate(emitter.table.shapes[scratch.array]):
        if not emitter.is_generated and dims.at_least(dim, 0) is not True:
            site = emitter.checks.site(scratch.array, axis)
            emitter.checks.not_negative(emitter.size(dim), site)
    if scratch.zeros:
        fill_with_zeros(emitter, scratch.array)


def fill_with_zeros(emitter: Emitter, array: Var) -> None:
    """Emits zeros in all elements of an array: the bits of every dtype's zero are 0."""
    width = element_bytes(dtype_of(array))
    count = emitter.asm.integer("mul nsw", emitter.elements(array), str(width))
    args = [("ptr", emitter.array(array)), ("i8", "0"), ("i64", count), ("i1", "false")]
    emitter.asm.call("llvm.memset.p0.i64", "void", args)


def _prefetch(emitter: Emitter, prefetch: Prefetch) -> None:
    """Emits a prefetch into all caches; the address may be outside of the array."""
    asm, array = emitter.asm, prefetch.array
    indices = [emitter.index(index) for index in prefetch.indices]
    element = Element(array, prefetch.indices, dtype_of(array), flat=prefetch.flat)
    place = emitter.array(array)
    for offset in (outer_offset(emitter, element, indices), *indices[-1:]):
        place = asm.value(f"getelementptr {STORED[dtype_of(array)]}, ptr {place}, i64 {offset}")
    asm.call("llvm.prefetch.p0", "void", [("ptr", place), *PREFETCH])


def _branch(emitter: Emitter, branch: Branch) -> None:
    asm = emitter.asm
    then, otherwise, after = map(asm.label, ("then", "else", "after"))
    asm.branch(emitter.scalar(branch.test), then, otherwise)
    reaches = False
    for label, side in ((then, branch.then), (otherwise, branch.otherwise)):
        asm.start(label)
        emitter.block(side)
        reaches = reaches or asm.is_open
        asm.jump(after)
    if reaches:
        asm.start(after)


def _while(emitter: Emitter, loop: While) -> None:
    asm = emitter.asm
    test, body, after = map(asm.label, ("while", "body", "after"))
    asm.jump(test)
    asm.start(test)
    asm.branch(emitter.scalar(loop.test), body, after)
    asm.start(body)
    with asm.exits(test, after):
        emitter.block(loop.body)
    asm.jump(test)
    asm.start(after)


STATEMENTS: dict[type[KernelStatement], Callable[[Emitter, Any], None]] = {
    Assign: _assign,
    Part: _part,
    Scratch: _scratch,
    Prefetch: _prefetch,
    Branch: _branch,
    While: _while,
    Break: lambda emitter, statement: emitter.asm.leave(again=False),
    Continue: lambda emitter, statement: emitter.asm.leave(again=True),
}

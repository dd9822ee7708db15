"""Renames kernels apart: each loop has its own variable, each name one definition, and each
statement one location."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from structir.ir import dims
from structir.ir.expr import Var
from structir.ir.kernel import (
    Assign,
    Extent,
    For,
    Kernel,
    KernelStatement,
    Local,
    LoopVariable,
    Scalar,
    Scratch,
    nodes_of,
)
from structir.ir.module import numbered_name
from structir.ir.node import rebuild, replace
from structir.ir.struct_info import PrimStructInfo
from structir.loops.schedule.sizes import size
from structir.printer.syntax import KERNEL_NAMES, RESERVED

Renamed = dict[Any, Any]  # variables of the enclosing loops


def with_distinct_loops(kernel: Kernel) -> Kernel:
    """Returns the kernel with distinct loop variables and unique names.

    Extents of local arrays become sizes, so that the arrays may be replaced. If a loop variable is
    also assigned as a scalar, the scalar is set from the new variable at the start of each
    iteration.
    """
    body = _LoopRenaming(kernel).block(kernel.body, {})
    return attrs.evolve(kernel, body=body)


def names_of_signature(kernel: Kernel) -> set[str]:
    """Returns the names that are reserved in a kernel: parameters, sizes, and keywords."""
    infos: list[Any] = [param.struct_info for param in kernel.params]
    sizes = [dim for info in infos for dim in getattr(info, "dims", None) or ()]
    sizes += [i.value for i in infos if isinstance(i, PrimStructInfo) and i.value is not None]
    symbols = {symbol.name for dim in sizes for symbol in dims.syms(dim)}
    return {p.name for p in kernel.params} | symbols | KERNEL_NAMES | RESERVED


class _LoopRenaming:
    """Renames the variables of one kernel; records the names in use."""

    def __init__(self, kernel: Kernel) -> None:
        self.used = names_of_signature(kernel)
        self.assigned = {n.target for n in nodes_of(kernel) if isinstance(n, Assign)}
        self.names: Renamed = dict(zip(kernel.params, kernel.params, strict=True))
        self.local = {node.array for node in nodes_of(kernel) if isinstance(node, Scratch)}
        self.seen: set[KernelStatement] = set()

    def block(self, block: Sequence[KernelStatement], loops: Renamed) -> Any:
        """Renames a block."""
        return tuple([self.statement(statement, loops) for statement in block])

    def statement(self, statement: KernelStatement, loops: Renamed) -> KernelStatement:
        """Renames a statement; copies a node that occurred before."""
        if isinstance(statement, For):
            return self.loop(statement, loops)
        new = rebuild(statement, lambda part: self.part(part, loops))
        if new in self.seen:
            new = replace(new)
        self.seen.add(new)
        return new

    def loop(self, loop: For, loops: Renamed) -> For:
        """Returns a loop over a new variable."""
        start, stop = self.part(loop.start, loops), self.part(loop.stop, loops)
        old = loop.variable
        variable = LoopVariable(self.unique(old.name), old.dtype, old.span)
        if old in self.assigned:
            first: tuple[KernelStatement, ...] = (Assign(self.part(old, loops), variable),)
            body = first + self.block(loop.body, loops)
        else:
            body = self.block(loop.body, {**loops, old: variable})
        return replace(loop, variable=variable, start=start, stop=stop, body=body)

    def part(self, part: Any, loops: Renamed) -> Any:
        """Renames a part of a statement."""
        if isinstance(part, KernelStatement):
            return self.statement(part, loops)
        if isinstance(part, Local):
            return loops[part] if part in loops else self.named(part)
        if isinstance(part, Extent) and part.array in self.local:
            return size(part.array.struct_info.dims[part.axis])  # type: ignore[attr-defined]
        if isinstance(part, Scalar):
            return rebuild(part, lambda child: self.part(child, loops))
        return self.named(part) if isinstance(part, Var) else part

    def named(self, variable: Any) -> Any:
        """Returns an array or scalar with a unique name."""
        known = self.names.get(variable)
        if known is None:
            name = self.unique(variable.name)
            same = name == variable.name
            known = self.names[variable] = variable if same else _with_name(variable, name)
        return known

    def unique(self, name: str) -> str:
        """Returns an unused name that begins with this one."""
        name = numbered_name(name, self.used)
        self.used.add(name)
        return name


def _with_name(variable: Any, name: str) -> Any:
    if isinstance(variable, Var):
        return Var(name, variable.struct_info, variable.span)
    return Local(name, variable.dtype, variable.span)

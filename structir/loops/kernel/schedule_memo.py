"""Writes equal groups once: the kernels of the others are those of the first, over other buffers.

Layers of a model are groups that are equal but for their buffers and axes. Their keys are equal.
Schedules depend on the order of symbols, by which sizes are sorted, and on the order of terms. The
key contains both. Sizes of the program are the same in equal groups, and constants other than
floating-point numbers are the same arrays, because their elements may determine a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import attrs

from structir.ir.dims import Atom, Dim, Opaque, Poly, Sym
from structir.loops.fusion.group import Group
from structir.loops.products.packing import origin_of, packed_buffer
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import (
    Entry,
    Expression,
    Load,
    Number,
    Operation,
    Position,
    Total,
)
from structir.loops.program.kernel_text import KernelText
from structir.loops.program.stage import Stage

Schedule = Callable[[Group], KernelText | None]


@attrs.frozen(eq=False)
class _WrittenKernel:
    """A kernel that was written, and the buffers of its group."""

    text: KernelText
    buffers: Sequence[Buffer]


class ScheduleMemo:
    """Schedules of one program that write equal groups once."""

    def __init__(self) -> None:
        self._templates: dict[Hashable, _WrittenKernel] = {}

    def schedules(self, schedules: Mapping[str, Schedule]) -> Mapping[str, Schedule]:
        """Returns schedules by kind that write equal groups once."""
        return {kind: self._once(schedule) for kind, schedule in schedules.items()}

    def _once(self, schedule: Schedule) -> Schedule:
        def write(group: Group) -> KernelText | None:
            if any(stage.routine is not None for stage in group.stages):
                return schedule(group)
            key = GroupKey(group)
            template = self._templates.get(key.value)
            if template is not None:
                return _instance(template, group, list(key.buffers))
            text = schedule(group)
            if text is not None and _is_renamable(text, group, key):
                self._templates[key.value] = _WrittenKernel(text, list(key.buffers))
            return text

        return write


def _is_renamable(text: KernelText, group: Group, key: GroupKey) -> bool:
    """Whether a kernel mentions nothing of its group but buffers that can be replaced."""
    if text.sites or text.function or text.origins != group.origins:
        return False
    constants = {id(buffer.data) for buffer in key.buffers}
    return all(
        buffer in key.buffers or buffer.origin == "scratch" or _packed_of(buffer) in constants
        for buffer in (*text.pointers, *text.scratch)
    )


def _packed_of(buffer: Buffer) -> int | None:
    """Returns the identity of the constant that a buffer has in panels."""
    origin = None if buffer.data is None else origin_of(buffer.data)
    return None if origin is None else id(origin.data())


def _instance(template: _WrittenKernel, group: Group, buffers: Sequence[Buffer]) -> KernelText:
    """Returns the kernel of an equal group."""
    pairs = zip(template.buffers, buffers, strict=True)
    renamed: dict[Buffer, Buffer] = dict(pairs)
    constants = {id(b.data): now for b, now in renamed.items() if b.data is not None}
    for buffer in (*template.text.pointers, *template.text.scratch):
        if buffer not in renamed:
            renamed[buffer] = _renewed(buffer, constants)
    return attrs.evolve(
        template.text,
        pointers=tuple([renamed[b] for b in template.text.pointers]),
        scratch=tuple([renamed[b] for b in template.text.scratch]),
        origins=group.origins,
    )


def _renewed(buffer: Buffer, constants: Mapping[int, Buffer]) -> Buffer:
    """Returns scratch memory of a kernel of its own, or the panels of its own constant."""
    origin: Any = None if buffer.data is None else origin_of(buffer.data)
    if origin is not None:
        return packed_buffer(constants[id(origin.data())], origin.form, origin.packing)
    return Buffer(buffer.shape, buffer.dtype, buffer.origin, name=buffer.name)


class GroupKey:
    """The key of a group, and its buffers in the order of the key."""

    def __init__(self, group: Group) -> None:
        self.buffers: dict[Buffer, int] = {}
        self._facts: list[Hashable] = []  # of each buffer,
        self._atoms: dict[Atom, int] = {}
        self._atom_facts: list[Hashable] = []  # of each symbol and function of sizes,
        self._arrays: dict[int, int] = {}  # of constants
        self._nodes: dict[Expression, int] = {}
        self._node_facts: list[Hashable] = []  # and of each expression
        self._axes = frozenset([a for stage in group.stages for a in stage.axes])
        parts = (
            group.kind,
            self._symbols(group.rows),
            tuple([self._stage(stage) for stage in group.stages]),
            self._members(group.kept),
            self._members(group.given),
        )
        order = tuple(sorted(self._atoms.values(), key=self._order().__getitem__))
        self.value: Hashable = (
            parts,
            tuple(self._facts),
            tuple(self._atom_facts),
            tuple(self._node_facts),
            order,
        )

    def _order(self) -> list[int]:
        return [atom.order for atom in self._atoms]

    def _members(self, buffers: Iterable[Buffer]) -> Hashable:
        return frozenset([self._buffer(buffer) for buffer in buffers])

    def _stage(self, stage: Stage) -> Hashable:
        running = stage.running
        return (
            self._buffer(stage.out),
            self._symbols(stage.parallel),
            self._symbols(stage.reduce),
            tuple([(self._atom(a), self._dim(e)) for a, e in stage.extents.items()]),
            self._expression(self._body(stage)),
            self._entries(stage.write),
            stage.monoid,
            tuple([self._dim(guard.value) for guard in stage.guards]),
            None if stage.exists is None else self._expression(stage.exists),
            stage.unique,
            running and (self._atom(running.target), running.op),
            None if stage.otherwise is None else self._expression(stage.otherwise),
        )

    def _body(self, stage: Stage) -> Expression:
        return stage.body

    def _symbols(self, symbols: Iterable[Sym]) -> Hashable:
        return tuple([self._atom(symbol) for symbol in symbols])

    def _entries(self, entries: Iterable[Entry]) -> Hashable:
        return tuple(
            [
                ("read", self._expression(e)) if isinstance(e, Expression) else self._dim(e)
                for e in entries
            ]
        )

    def _buffer(self, buffer: Buffer) -> int:
        number = self.buffers.get(buffer)
        if number is None:
            base = None if buffer.base is None else self._buffer(buffer.root)
            shape = tuple([self._dim(size) for size in buffer.shape])
            number = self.buffers[buffer] = len(self.buffers)
            self._facts.append((shape, buffer.dtype, buffer.origin, base, self._data(buffer.data)))
        return number

    def _dim(self, dim: Dim) -> Hashable:
        if type(dim) is not Poly:
            return self._integer(int(dim))
        terms = [
            (tuple([self._atom(a) for a in monomial]), self._integer(factor))
            for monomial, factor in dim.terms.items()
        ]
        return tuple(terms), self._integer(dim.constant)

    def _function(self, atom: Opaque) -> Hashable:
        return atom.fn, tuple([self._dim(a) for a in atom.args]), atom.interval

    def _size(self, size: Sym) -> Hashable:
        """Returns the part of a size that equal groups share."""
        return size

    def _integer(self, value: int) -> Hashable:
        """Returns the part of an integer in a size or an index that equal groups share."""
        return value

    def _atom(self, atom: Atom) -> int:
        number = self._atoms.get(atom)
        if number is None:
            facts: Hashable = "axis"
            if not isinstance(atom, Sym):
                facts = self._function(atom)
            elif atom not in self._axes:
                facts = self._size(atom)
            number = self._atoms[atom] = len(self._atoms)
            self._atom_facts.append(facts)
        return number

    def _expression(self, node: Expression) -> int:
        number = self._nodes.get(node)
        if number is None:
            facts = self._node(node)
            number = self._nodes[node] = len(self._nodes)
            self._node_facts.append(facts)
        return number

    def _node(self, node: Expression) -> Hashable:
        match node:
            case Operation(fn, args, dtype, exact):
                return fn, tuple([self._expression(a) for a in args]), dtype, exact
            case Load(buffer, entries, dtype):
                return "load", self._buffer(buffer), self._entries(entries), dtype
            case Number(value, dtype):
                return "number", self._number(value, dtype), dtype
            case Position(dim, dtype):
                return "position", self._dim(dim), dtype
            case Total(buffer, dtype):
                return "total", self._buffer(buffer), dtype
        raise TypeError(f"no key of {node!r}")

    def _number(self, value: Any, dtype: str) -> Hashable:
        """Returns the part of a constant in an expression that equal groups share."""
        return repr(value)

    def _data(self, data: Any) -> Hashable:
        """Returns the part of a constant array that a kernel may depend on."""
        if data is None:
            return None
        if data.dtype.kind != "f":
            return "array", id(data)
        return self._arrays.setdefault(id(data), len(self._arrays))

"""Stages, each an op or a part of one as a loop nest with one write; programs of stages, and their
order."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Var
from structir.ir.kernel import Kernel
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import (
    Entry,
    Expression,
    Load,
    Operation,
    Position,
    apply,
    load,
    loads_of,
    walk,
)
from structir.loops.program.routine import Routine
from structir.system.locks import cached_property

# Monoids of reductions inside fused kernels; others have a nest of their own.
FUSED_MONOIDS = frozenset({"sum", "prod", "max", "min", "any", "all"})


@attrs.frozen
class Guard:
    """A point exists only if `value` is at least 0."""

    value: Dim


@attrs.frozen
class Running:
    """A scan: the linear index of the reduced axes is related to a parallel axis by the comparison
    `op`."""

    target: Sym
    op: str


@attrs.frozen(eq=False)
class KernelCall:
    """A call of a kernel of the program, or of one that is generated from ops: the values of its
    parameters, and its dims in terms of the caller's."""

    kernel: Kernel
    values: Mapping[Var, Buffer | Dim]
    dims: Mapping[Sym, Dim]
    runs: bool = True
    is_generated: bool = False

    @property
    def sizes(self) -> tuple[Dim, ...]:
        """The dims of the caller on which it depends."""
        return tuple(self.dims.values())

    @property
    def constants(self) -> frozenset[Var]:
        """The operands that are constants."""
        operands = [(p, self.values[p]) for p in self.kernel.operands]
        known = [p for p, b in operands if isinstance(b, Buffer) and b.root.data is not None]
        return frozenset(known)

    def size(self, dim: Dim) -> Dim:
        """Returns a dim of the kernel in terms of the caller's."""
        return dims.substitute(dim, self.dims)

    def memory(self, array: Var, shape: Sequence[Dim]) -> Buffer:
        """Returns the buffer of a parameter, or new memory for another array."""
        value = self.values.get(array)
        if isinstance(value, Buffer):
            return value.root
        dtype = array.struct_info.dtype  # type: ignore[attr-defined]
        return Buffer(tuple(map(self.size, shape)), dtype, "scratch")


@attrs.frozen(eq=False, repr=False, slots=False)
class Stage:
    """out[write] = the monoid, over the `reduce` axes, of the body.

    Axes are symbols of the stage; fusion determines which axes of two stages are iterated together.
    Points that fail a guard, or where `exists` is false, are absent. With `unique`, no two
    points write one element; otherwise the monoid combines coinciding writes, or the last one
    remains. `otherwise` is the constant that is written where a guard fails.
    """

    out: Buffer
    parallel: tuple[Sym, ...]
    reduce: tuple[Sym, ...]
    extents: Mapping[Sym, Dim]
    body: Expression
    write: tuple[Entry, ...]
    monoid: str | None = None
    guards: tuple[Guard, ...] = ()
    exists: Expression | None = None
    unique: bool = True
    running: Running | None = None
    origin: str = ""
    routine: Routine | KernelCall | None = None
    otherwise: Expression | None = None

    def __repr__(self) -> str:
        return f"{self.out} <- {self.monoid or ''}{list(self.reduce) or ''} {self.body}"

    @property
    def origins(self) -> tuple[str, ...]:
        """Its location, if known."""
        return (self.origin,) if self.origin else ()

    @property
    def axes(self) -> tuple[Sym, ...]:
        """All axes, parallel ones first."""
        return (*self.parallel, *self.reduce)

    @cached_property
    def loads(self) -> list[Load]:
        """The reads of the body and of the write index."""
        written = [load for e in self.write if isinstance(e, Expression) for load in loads_of(e)]
        tested = loads_of(self.exists) if self.exists is not None else []
        return list(dict.fromkeys([*loads_of(self.body), *written, *tested]))

    @cached_property
    def written_axes(self) -> tuple[Sym, ...] | None:
        """The axis of each entry of the write, where each is an axis or a constant 0; else None."""
        collected: list[Sym] = []
        for entry in self.write:
            symbol = None if isinstance(entry, Expression) else dims.as_sym(entry)
            if symbol is not None:
                collected.append(symbol)
            elif entry != 0:
                return None
        axes = tuple(collected)
        return axes if axes == self.parallel or set(axes) == set(self.parallel) else None

    @cached_property
    def reads_at_axes(self) -> bool:
        """Whether it has no guards, and each index of a read is an axis."""
        entries = [entry for read in self.loads for entry in read.entries]
        plain = [not isinstance(e, Expression) and dims.as_sym(e) is not None for e in entries]
        return not self.guards and all(plain)

    @cached_property
    def simple(self) -> bool:
        """Whether fused kernels can contain it: every point exists, writes once, and has a plain
        reduction."""
        plain_write = not any(isinstance(e, Expression) for e in self.write)
        known = self.monoid in FUSED_MONOIDS if self.reduce else self.monoid is None
        alone = self.running is not None or self.routine is not None
        return known and plain_write and self._everywhere and not alone

    @cached_property
    def at_axes(self) -> bool:
        """Whether each index that it reads or writes is an axis, without guards: stages with other
        indices may have windows."""
        return self.reads_at_axes and self.written_axes is not None

    def reads_in_order(self, read: Load) -> bool:
        """Whether each index of a read is an axis, and they are in the order of its axes."""
        units = [None if isinstance(e, Expression) else dims.as_sym(e) for e in read.entries]
        return None not in units and [axis for axis in self.axes if axis in units] == units

    @cached_property
    def functions(self) -> frozenset[str]:
        """The scalar functions of its body."""
        return frozenset([n.fn for n in walk(self.body) if isinstance(n, Operation)])

    @property
    def _everywhere(self) -> bool:
        return self.unique and not self.guards and self.exists is None

    @cached_property
    def direct(self) -> bool:
        """Whether it is simple and writes each element at its own axes."""
        return self.simple and self.written_axes is not None

    @cached_property
    def pinned(self) -> frozenset[Sym]:
        """The axes whose position is a value in the body, so that they cannot be collapsed."""
        reduced: set[Sym] = set()
        for node in walk(self.body):
            if isinstance(node, Position):
                reduced |= dims.syms(node.dim)
        return frozenset(reduced)


def extents_of(stages: Iterable[Stage]) -> dict[Sym, Dim]:
    """Returns the extents of all axes of some stages."""
    return {axis: extent for stage in stages for axis, extent in stage.extents.items()}


def routine_stages(
    reads: Sequence[Buffer],
    results: Sequence[Buffer],
    routine: Routine | KernelCall,
    origin: str,
) -> list[Stage]:
    """Returns a routine as stages: the first one runs it, the others mark the further results."""
    first, *others = results
    stages = [_whole_stage(first, reads, routine, origin)]
    beside = attrs.evolve(routine, runs=False)
    return stages + [_whole_stage(other, [first], beside, origin) for other in others]


def _whole_stage(
    out: Buffer, reads: Sequence[Buffer], routine: Routine | KernelCall, origin: str
) -> Stage:
    loads = tuple([load(b, (0,) * len(b.shape)) for b in reads])
    body = apply("routine", loads, "int64")
    return Stage(out, (), (), {}, body, (0,) * len(out.shape), origin=origin, routine=routine)


@attrs.frozen
class Overwrite:
    """An input whose memory `target` takes: all reads of the input precede writes of `target`."""

    target: Buffer
    donor: Buffer


@attrs.frozen
class LoopProgram:
    """Stages in order, and the externally visible buffers.

    `donated` maps results to inputs whose memory they may take.
    """

    inputs: tuple[Buffer, ...]
    constants: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    stages: tuple[Stage, ...]
    donated: tuple[tuple[Buffer, Buffer], ...] = ()
    overwrites: tuple[Overwrite, ...] = ()

    @property
    def has_views(self) -> bool:
        """Whether a stage only moves elements or is not used, or one reads the value of another one
        in another order than its own."""
        computed = {stage.out for stage in self.stages}
        used = {b.root for b in self.outputs}
        used |= {read.buffer.root for stage in self.stages for read in stage.loads}
        return any(
            isinstance(stage.body, Load)
            or stage.out.root not in used
            or any(x.buffer in computed and not stage.reads_in_order(x) for x in stage.loads)
            for stage in self.stages
        )

    def buffers(self) -> Iterator[Buffer]:
        """Yields every buffer that a stage accesses or that is visible outside, each once."""
        seen: set[Buffer] = set()
        touched = [b for s in self.stages for b in (*[x.buffer for x in s.loads], s.out)]
        for buffer in (*self.inputs, *self.constants, *touched, *self.outputs):
            if buffer not in seen:
                seen.add(buffer)
                yield buffer


def topological_order(count: int, edges: Collection[tuple[int, int]]) -> list[int] | None:
    """Returns the topological order of the numbers below `count` that is nearest to their own;
    None if the edges (earlier, later) have a cycle."""
    followers: dict[int, list[int]] = {}
    waiting = [0] * count
    for before, after in edges:
        followers.setdefault(before, []).append(after)
        waiting[after] += 1
    ready = [k for k in range(count) if not waiting[k]]
    order: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for after in followers.get(index, ()):
            waiting[after] -= 1
            if not waiting[after]:
                heapq.heappush(ready, after)
    return order if len(order) == count else None

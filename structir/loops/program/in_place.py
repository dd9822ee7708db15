"""Updates of donated inputs in place: a result takes the memory of an input, and the copy of the
input into the result is removed."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import attrs

from structir.ir import dims
from structir.loops.program.access import address_of
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import Entry, Expression, Load, load, rebuilt
from structir.loops.program.stage import LoopProgram, Overwrite, Stage, topological_order


def with_updates(program: LoopProgram) -> LoopProgram:
    """Returns the program with each donated input overwritten by its result, where a copy of the
    input begins the result.

    Other donated inputs remain candidates of `reused`. Stages that read an old value precede those
    that overwrite it.
    """
    for result, donor in program.donated:
        candidate, merged = program, _merged(program, result.root)
        while merged is not None:
            candidate, merged = merged, _merged(merged, result.root)
        program = _updated(candidate, result, donor) or program
    return program


def _updated(program: LoopProgram, result: Buffer, donor: Buffer) -> LoopProgram | None:
    target = result.root
    writers = [s for s in program.stages if s.out.root is target]
    if len(writers) < 2 or target.origin != "value" or any(s.routine for s in writers):
        return None
    first, *others = writers
    if donor in {b.root for b in program.outputs}:  # the old value is a result, too
        return None
    if not _copies_all(first, target, donor) or any(_reads(s, donor) for s in others):
        return None
    stages = [s for s in program.stages if s is not first]
    overwrites = (*program.overwrites, Overwrite(target, donor))
    order = _ordered(stages, overwrites)
    if order is None:
        return None
    return attrs.evolve(program, stages=tuple(order), overwrites=overwrites)


def _reads(stage: Stage, buffer: Buffer) -> bool:
    return any(read.buffer.root is buffer for read in stage.loads)


def _copies_all(stage: Stage, target: Buffer, donor: Buffer) -> bool:
    """Returns whether a stage copies each element of one buffer to the same offset in another."""
    body = stage.body
    if not isinstance(body, Load) or body.buffer.root is not donor or stage.out is not target:
        return False
    indices = (*body.entries, *stage.write)
    if not stage.simple or stage.reduce or any(isinstance(e, Expression) for e in indices):
        return False
    moved = prod(stage.extents[axis] for axis in stage.parallel)
    sizes = [moved, donor.elements, target.elements]
    if not all(dims.equal(size, body.buffer.elements) for size in sizes):
        return False
    read = address_of(body.buffer, body.entries, stage.axes)
    written = address_of(target, stage.write, stage.axes)
    same_axes = dict(read.coefficients) == dict(written.coefficients)
    return donor.dtype == target.dtype and same_axes and read.rest == written.rest


def _ordered(stages: Sequence[Stage], overwrites: Sequence[Overwrite]) -> list[Stage] | None:
    """Returns the stages in an order in which old values are read before they are overwritten;
    None if there is no such order."""
    writers: dict[Buffer, list[int]] = {}
    readers: dict[Buffer, list[int]] = {}
    for index, stage in enumerate(stages):
        writers.setdefault(stage.out.root, []).append(index)
        for root in {read.buffer.root for read in stage.loads}:
            readers.setdefault(root, []).append(index)
    edges = {(w, r) for b in readers for w in writers.get(b, ()) for r in readers[b] if w != r}
    edges |= {(a, b) for indices in writers.values() for a in indices for b in indices if a < b}
    for overwrite in overwrites:
        late = writers.get(overwrite.target, ())
        edges |= {(r, w) for r in readers.get(overwrite.donor, ()) for w in late}
    order = topological_order(len(stages), edges)
    return None if order is None else [stages[k] for k in order]


# ---- values that are copied to a target: an update of a permuted input has the input's layout


def _merged(program: LoopProgram, target: Buffer) -> LoopProgram | None:
    """Returns the program in which a value that is first copied to a target, perhaps permuted, is
    computed in the target; None if it has other uses."""
    writers = [s for s in program.stages if s.out.root is target]
    body = writers[0].body if writers else None
    if not isinstance(body, Load) or not writers[0].direct or writers[0].reduce:
        return None
    mover, *others = writers
    value, outputs = body.buffer, {b.root for b in program.outputs}
    axes = _axis_order(mover, body)
    if axes is None or value.root in outputs or value.origin != "value" or value.base is not None:
        return None
    readers = [s for s in program.stages if _reads(s, value) and s is not mover]
    if value.dtype != target.dtype or not _is_plain(program, value) or (others and readers):
        return None
    stages = [_moved(s, value, target, axes) for s in program.stages if s is not mover]
    return attrs.evolve(program, stages=tuple(stages))


def _is_plain(program: LoopProgram, value: Buffer) -> bool:
    """Returns whether stages access a buffer by indices only: no views, and no routines."""
    for stage in program.stages:
        touched = [stage.out, *[read.buffer for read in stage.loads]]
        users = [b for b in touched if b.root is value]
        if users and (stage.routine is not None or any(b is not value for b in users)):
            return False
    return True


def _axis_order(mover: Stage, read: Load) -> tuple[int, ...] | None:
    """Returns for each axis of the result the axis of the value; -1 for a new axis of size 1."""
    sources = [None if isinstance(e, Expression) else dims.as_sym(e) for e in read.entries]
    order = []
    for written, size in zip(mover.write, mover.out.shape, strict=True):
        symbol = None if isinstance(written, Expression) else dims.as_sym(written)
        if symbol is None:
            order.append(-1)
        elif sources.count(symbol) != 1 or read.buffer.shape[sources.index(symbol)] != size:
            return None
        else:
            order.append(sources.index(symbol))
    rest = set(range(len(sources))) - set(order)
    return tuple(order) if all(read.buffer.shape[k] == 1 for k in rest) else None


def _moved(stage: Stage, value: Buffer, result: Buffer, axes: tuple[int, ...]) -> Stage:
    """Returns a stage with accesses of a value as accesses of the result."""

    def leaf(node: Expression) -> Expression:
        if not isinstance(node, Load):
            return node
        entries = tuple([entry(e) for e in node.entries])
        return load(result, at(entries)) if node.buffer is value else load(node.buffer, entries)

    def entry(index: Entry) -> Entry:
        return rebuilt(index, leaf) if isinstance(index, Expression) else index

    def at(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        return tuple([0 if k < 0 else entries[k] for k in axes])

    write = tuple([entry(e) for e in stage.write])
    return attrs.evolve(
        stage,
        out=result if stage.out is value else stage.out,
        write=at(write) if stage.out is value else write,
        body=rebuilt(stage.body, leaf),
        exists=None if stage.exists is None else rebuilt(stage.exists, leaf),
    )

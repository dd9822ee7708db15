"""Blocking of ops on the rows of ragged tensors: the values of a block of rows fit in cache.

A row program is split into phases: maps over values, maps over rows, and row functions, which
reduce the values of each row or repeat its number for each of them. Each phase runs for all rows of
a block before the next phase. A map over values is one loop over those of all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from structir.backend.cpu.row_functions import reduces
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.compose import composed
from structir.backend.loops.exponentials import with_nonpositive_exponentials
from structir.backend.loops.expression import (
    Expression,
    Load,
    Operation,
    Position,
    apply,
    axis_dim,
    load,
    loads_of,
    number,
    walk,
)
from structir.backend.loops.scalar_text import cost_of
from structir.backend.loops.stage import LoopProgram, Stage
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.dtype import is_float
from structir.ir.kernel_functions import rounds_to_integers

VALUES, ROW = "values", "row"  # units: one element per value, or per row


class NotInBlocksError(Exception):
    """A row program that is not a chain of maps and reductions of scalars."""


@attrs.frozen(eq=False)
class RowReduction:
    """A reduction of the values of each row to a scalar."""

    out: Buffer
    values: Buffer
    monoid: str


@attrs.frozen(eq=False)
class RowExpansion:
    """A repetition of the number of each row for its values."""

    out: Buffer
    values: Buffer  # one of each row


Item = Stage | RowReduction | RowExpansion


@attrs.define(eq=False)
class Phase:
    """Maps over values, maps over rows, or row functions."""

    unit: str  # "values", "row", or "" of row functions
    items: list[Item] = attrs.Factory(list)

    @property
    def work(self) -> float:
        """The cost of a value in maps over values, an addition being 1."""
        stages = [item for item in self.items if isinstance(item, Stage) and self.unit == VALUES]
        nodes = [node for stage in stages for node in walk(stage.body)]
        return sum([cost_of(node.fn) for node in nodes if isinstance(node, Operation)])


@attrs.define(eq=False)
class BlockProgram:
    """The phases of a block of rows, and the buffers that replace those of the row program."""

    phases: list[Phase]
    flat: Mapping[Buffer, Buffer]  # buffers of the block, by those of the row program
    values: Sym  # the number of values of a row
    rows: Sym  # the number of rows of a block

    @property
    def has_values(self) -> bool:
        """Whether a phase maps over values."""
        return any(phase.unit == VALUES for phase in self.phases)

    def programs(self) -> Iterator[tuple[Phase, LoopProgram | None]]:
        """Yields each phase with the program of its maps."""
        outputs = set(self.flat.values())
        reads = [{b for item in phase.items for b in _reads(item)} for phase in self.phases]
        for k, phase in enumerate(self.phases):
            stages = [item for item in phase.items if isinstance(item, Stage)]
            later = outputs.union(*reads[:k], *reads[k + 1 :])
            local = [s.out for s in stages]
            inputs = dict.fromkeys(b for s in stages for b in _reads(s) if b not in local)
            constants = tuple([b for b in inputs if b.origin == "constant"])
            given = tuple([b for b in inputs if b.origin != "constant"])
            kept = tuple([b for b in local if b in later])
            program = LoopProgram(given, constants, kept, tuple(stages)) if stages else None
            yield phase, program


def _reads(item: Item) -> list[Buffer]:
    if isinstance(item, Stage):
        return [read.buffer for read in item.loads]
    return [item.values]


def in_blocks(
    program: LoopProgram, one: Sym, length: Sym, units: Mapping[Buffer, str]
) -> BlockProgram | None:
    """Returns the phases of a row program; None if it must run row by row.

    `units` are those of the inputs: "values", "row", or "" if all rows share the input.
    """
    try:
        return _Blocks(one, length, units).program(program)
    except NotInBlocksError:
        return None


def reduces_itself(stage: Stage) -> bool:
    """Whether a stage reduces a buffer to one of the same dtype, and computes nothing else."""
    body = stage.body
    return bool(stage.reduce) and isinstance(body, Load) and body.buffer.dtype == stage.out.dtype


class _Blocks:
    """Rewrites the stages of one row to phases of a block."""

    def __init__(self, one: Sym, length: Sym, units: Mapping[Buffer, str]) -> None:
        self.one, self.length = one, length
        self.inputs, self.units = tuple(units), dict(units)
        self.phases: list[Phase] = []
        self.position: dict[Buffer, int] = {}  # of the phase that computes a buffer
        self.flat: dict[Buffer, Buffer] = {}
        self.expanded: dict[Buffer, Buffer] = {}  # values, by the numbers of rows that they repeat
        self.numbers: dict[Expression, Buffer] = {}  # of rows, by what computes them
        symbols = [dims.as_sym(dims.sym(name)) for name in ("values", "rows", "value", "row")]
        self.values, self.rows, self.value, self.row = [s for s in symbols if s is not None]

    def program(self, program: LoopProgram) -> BlockProgram:
        for stage in with_nonpositive_exponentials(composed(program)).stages:
            self._stage(stage)
        outputs = {b.root: self.flat[b.root] for b in program.outputs}
        inputs = {b: self.flat[b] for b in self.inputs if b in self.flat}
        flat = {**inputs, **outputs}
        return BlockProgram(self.phases, flat, self.values, self.rows)

    def _size(self, dim: Dim) -> Dim:
        return dims.substitute(dim, {self.one: 1})

    def _buffer(self, unit: str, dtype: str) -> Buffer:
        size = self.values if unit == VALUES else self.rows
        return Buffer((axis_dim(size),), dtype)

    def _entry(self, unit: str) -> Dim:
        return axis_dim(self.value if unit == VALUES else self.row)

    def _flat(self, buffer: Buffer) -> Buffer:
        """Returns the buffer of a block that replaces one of a row."""
        root = buffer.root
        if root not in self.flat:
            self.flat[root] = self._buffer(self.units[root], root.dtype)
        return self.flat[root]

    # ---- stages

    def _stage(self, stage: Stage) -> None:
        if not stage.simple or stage.exists is not None or stage.guards:
            raise NotInBlocksError
        sizes = {axis: self._size(extent) for axis, extent in stage.extents.items()}
        along = [axis for axis in stage.axes if sizes[axis] != 1]
        if any([sizes[axis] != axis_dim(self.length) for axis in along]) or len(along) > 1:
            raise NotInBlocksError
        rounds = stage.out.dtype != stage.body.dtype and is_float(stage.out.dtype)
        if rounds and not reduces_itself(stage):
            raise NotInBlocksError
        unit = ROW if set(along) <= set(stage.reduce) else VALUES
        self._check_entries(stage.write, unit, along)
        self._check_size(stage.out, unit)
        self.units[stage.out.root] = unit
        if any([isinstance(node, Position) for node in walk(stage.body)]):
            raise NotInBlocksError
        if along and unit == ROW:
            self._reduction(stage, along)
        elif stage.reduce:
            raise NotInBlocksError
        else:
            body = self._of_block(stage.body, unit, along)
            self._map(unit, self._flat(stage.out), body, stage.origin)

    def _check_entries(self, entries: tuple[object, ...], unit: str, along: list[Sym]) -> None:
        """Raises NotInBlocksError unless an access is to its own value or row."""
        inside = [e for e in entries if e != 0 and self._is_along(e, along)]
        if any([isinstance(e, Expression) for e in entries]) or len(inside) != (unit == VALUES):
            raise NotInBlocksError
        others = [e for e in entries if e not in inside and not isinstance(e, int)]
        if any([dims.as_sym(e) is None for e in (*others, *inside)]):  # type: ignore[arg-type]
            raise NotInBlocksError

    def _check_size(self, buffer: Buffer, unit: str) -> None:
        """Raises NotInBlocksError unless a buffer has one element for each value or row."""
        expected = axis_dim(self.length) if unit == VALUES else 1
        if self._size(buffer.elements) != expected:
            raise NotInBlocksError

    def _is_along(self, entry: object, along: list[Sym]) -> bool:
        return bool(dims.syms(entry) & {*along})  # type: ignore[arg-type]

    def _reduction(self, stage: Stage, along: list[Sym]) -> None:
        dtype = stage.out.dtype
        if not reduces(stage.monoid or "", dtype):
            raise NotInBlocksError
        if stage.body.dtype != dtype and not reduces_itself(stage):
            raise NotInBlocksError
        body = self._of_block(stage.body, VALUES, along)
        if isinstance(body, Load) and body.buffer.shape == (axis_dim(self.values),):
            values = body.buffer
        else:
            values = self._map(VALUES, self._buffer(VALUES, dtype), body, stage.origin)
        out = self._flat(stage.out)
        self._place("", RowReduction(out, values, stage.monoid or ""), out)

    def _map(self, unit: str, out: Buffer, body: Expression, origin: str) -> Buffer:
        axis = self.value if unit == VALUES else self.row
        extent = self.values if unit == VALUES else self.rows
        entries, extents = (axis_dim(axis),), {axis: axis_dim(extent)}
        stage = Stage(out, (axis,), (), extents, body, entries, origin=origin)
        self._place(unit, stage, out)
        return out

    def _place(self, unit: str, item: Item, out: Buffer) -> None:
        """Adds an item to the first phase of its unit that is not before its producers."""
        first = max([self.position.get(b, 0) for b in _reads(item)], default=0)
        places = [k for k in range(first, len(self.phases)) if self.phases[k].unit == unit]
        if not places:
            self.phases.append(Phase(unit))
            places = [len(self.phases) - 1]
        self.phases[places[0]].items.append(item)
        self.position[out] = places[0]

    # ---- expressions

    def _of_block(self, body: Expression, unit: str, along: list[Sym]) -> Expression:
        """Returns a body with loads from the buffers of a block.

        In a map over values, what depends on the row only is computed once per row.
        """
        made: dict[tuple[Expression, bool], Expression] = {}

        def visit(node: Expression, is_rounded: bool = False) -> Expression:
            if unit == VALUES and self._is_of_row(node):
                return self._repeated(self._of_block(node, ROW, along))
            if not isinstance(node, Operation):
                return self._leaf(node, along)
            if (node, is_rounded) not in made:
                product = node if unit == ROW or is_rounded else self._product(node)
                rounds = rounds_to_integers(product.fn, product.dtype)
                args = tuple([visit(a, rounds) for a in product.args])
                made[node, is_rounded] = apply(product.fn, args, product.dtype, product.exact)
            return made[node, is_rounded]

        return visit(body)

    def _is_of_row(self, node: Expression) -> bool:
        """Whether a value is the same for all values of a row, but not for all rows."""
        units = {self.units.get(read.buffer.root, "") for read in loads_of(node)}
        return ROW in units and VALUES not in units

    def _product(self, node: Operation) -> Operation:
        """Returns a division by a number of the row as the product with its reciprocal; any other
        operation unchanged."""
        if node.fn != "div" or node.exact or not is_float(node.dtype):
            return node
        over, under = node.args
        if not self._is_of_row(under):
            return node
        reciprocal = apply("div", (number(1.0, node.dtype), under), node.dtype)
        return apply("mul", (over, reciprocal), node.dtype)

    def _repeated(self, value: Expression) -> Expression:
        """Returns the load of a number of a row at each of its values."""
        if isinstance(value, Load):
            numbers = value.buffer
        elif value in self.numbers:
            numbers = self.numbers[value]
        else:
            numbers = self._map(ROW, self._buffer(ROW, value.dtype), value, "")
            self.numbers[value] = numbers
        if numbers not in self.expanded:
            out = self._buffer(VALUES, numbers.dtype)
            self.expanded[numbers] = out
            self._place("", RowExpansion(out, numbers), out)
        return load(self.expanded[numbers], (self._entry(VALUES),))

    def _leaf(self, node: Expression, along: list[Sym]) -> Expression:
        if not isinstance(node, Load):
            return node
        unit = self.units.get(node.buffer.root, "")
        if not unit:
            if any([not isinstance(e, int) for e in node.entries]):
                raise NotInBlocksError
            return node
        self._check_entries(node.entries, unit, along)
        self._check_size(node.buffer, unit)
        return load(self._flat(node.buffer), (self._entry(unit),))

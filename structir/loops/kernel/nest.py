"""The kernel of one stage in its own loops: parallel axes outside, reduced ones inside, guards.

Guards that are affine in a loop's axis become loop bounds, others become tests. A scan makes one
pass along its axis. A scatter combines with the previous element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce

from structir.ir import dims
from structir.ir.dims import Sym
from structir.ir.expr import Var
from structir.ir.kernel import (
    Apply,
    Assign,
    Branch,
    Element,
    KernelStatement,
    Literal,
    LoopVariable,
    Scalar,
    computed_in,
)
from structir.loops.fusion.group import Group
from structir.loops.kernel.as_kernel import ShownKernel
from structir.loops.kernel.library_nodes import LibraryNodeWriter
from structir.loops.lower.as_scalar import Values, accumulated, applied, stated
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import Entry, Expression, symbols_of
from structir.loops.program.stage import Guard, Stage
from structir.projections.monoid import MONOIDS

Statements = list[KernelStatement]
Inner = Callable[[frozenset[Sym], Statements], None]  # writes what loops over some axes contain
ZERO = Literal(0, "int64")


def nest_nodes(group: Group, name: str) -> ShownKernel:
    """Returns the nodes of one stage in its own loop nest."""
    return _NestWriter(group, name).kernel()


class _NestWriter(LibraryNodeWriter):
    def __init__(self, group: Group, name: str) -> None:
        super().__init__(group, name)
        self.guards = list(self.stage.guards)
        self.values: Values | None = None  # of the condition under which the point exists,
        self.is_tested = False  # where outer loops decide that

    def write_group(self, into: Statements) -> None:
        """Writes the stage. The first parallel axis is the range; a scatter is one indivisible
        part."""
        stage, axes = self.stage, list(self.stage.parallel)
        is_parted = stage.unique and bool(axes)
        if stage.running is not None:
            is_parted = is_parted and axes[0] is not stage.running.target
            axes.remove(stage.running.target)
        low, high = self.part(stage.extents[axes[0]] if is_parted else 1, into)
        if is_parted:
            self._nest(axes, frozenset(), into, self._inner(), (low, high))
            return
        body = list[KernelStatement]()
        self._nest(axes, frozenset(), body, self._inner())
        into.append(Branch(Apply("lt", (low, high), "bool"), tuple(body)))

    def _inner(self) -> Inner:
        """Returns what the loops over parallel axes contain."""
        stage = self.stage
        if stage.running is not None:
            return lambda _, into: self._scan(stage, into)
        if not stage.reduce:
            return lambda _, into: self._if_it_exists(into, lambda body: self._map(stage, body))
        outside = [g for g in self.guards if not dims.syms(g.value) & {*stage.reduce}]
        self.guards = [g for g in self.guards if g not in outside]
        return lambda known, into: self._reduction(self._all_hold(outside), known, into)

    # ---- loops

    def _nest(
        self,
        axes: Sequence[Sym],
        known: frozenset[Sym],
        into: Statements,
        inner: Inner,
        ends: tuple[Scalar, Scalar] | None = None,
    ) -> None:
        """Writes loops over some axes, inside of those over known ones, under the conditions that
        these decide. `ends` are those of the first axis."""
        ready = [g for g in self.guards if dims.syms(g.value) & {*self.stage.axes} <= known]
        self.guards = [g for g in self.guards if g not in ready]
        test = self._all_hold(ready)
        body = list[KernelStatement]() if ready else into
        if self._tells_existence(known):
            self.is_tested = True
            self._if(self._existence(body), body, lambda b: self._loop(axes, known, b, inner, ends))
        else:
            self._loop(axes, known, body, inner, ends)
        if test is not None:
            into.append(Branch(test, tuple(body)))

    def _loop(
        self,
        axes: Sequence[Sym],
        known: frozenset[Sym],
        into: Statements,
        inner: Inner,
        ends: tuple[Scalar, Scalar] | None,
    ) -> None:
        if not axes:
            inner(known, into)
            return
        axis, *rest = axes
        (extent,) = self.integers(self.stage.extents[axis])
        low, high = self._bounds(axis, known, *(ends or (ZERO, extent)))
        variable, body = LoopVariable(self.unused("i"), "int64"), list[KernelStatement]()
        self.scalars.axes[axis] = variable
        self._nest(rest, known | {axis}, body, inner)
        into.append(self.loop_over(variable, low, high, body))

    def _bounds(
        self, axis: Sym, known: frozenset[Sym], low: Scalar, high: Scalar
    ) -> tuple[Scalar, Scalar]:
        """Returns the bounds of a loop, restricted by the guards that it decides."""
        for guard in list(self.guards):
            cut = self._cut(guard, axis, known)
            if cut is None:
                continue
            is_lower, bound = cut
            if is_lower:
                low = Apply("max", (low, bound), "int64")
            else:
                high = Apply("min", (high, bound), "int64")
            self.guards.remove(guard)
        return low, high

    def _cut(self, guard: Guard, axis: Sym, known: frozenset[Sym]) -> tuple[bool, Scalar] | None:
        """Returns a guard as a bound, and whether it is a lower one."""
        own = dims.syms(guard.value) & {*self.stage.axes}
        if axis not in own or not own <= known | {axis}:
            return None
        form = dims.linear(guard.value, axis)
        if form is None or not isinstance(form[0], int) or form[0] == 0:
            return None
        step, rest = int(form[0]), form[1]
        if dims.syms(rest) & {axis}:
            return None
        if step > 0:  # step * axis + rest >= 0
            return True, self.scalars.index(dims.ceildiv(-rest, step))
        return False, self.scalars.index(dims.floordiv(rest, -step) + 1)

    def _all_hold(self, guards: Iterable[Guard]) -> Scalar | None:
        """Returns the condition that guards hold."""
        tests = [Apply("ge", (self.scalars.index(g.value), ZERO), "bool") for g in guards]
        return reduce(lambda a, b: Apply("and", (a, b), "bool"), tests) if tests else None

    # ---- points

    def _tells_existence(self, known: frozenset[Sym]) -> bool:
        """Whether some loops alone decide that points exist, independent of inner ones."""
        stage = self.stage
        if stage.exists is None or self.is_tested or stage.reduce or stage.running:
            return False
        needed = symbols_of(stage.exists) & {*stage.axes}
        return bool(known) and needed <= known < {*stage.parallel}

    def _existence(self, into: Statements) -> Scalar:
        self.values = {}
        assert self.stage.exists is not None
        return self._value(self.stage.exists, into)

    @staticmethod
    def _if(test: Scalar, into: Statements, point: Callable[[Statements], None]) -> None:
        body = list[KernelStatement]()
        point(body)
        into.append(Branch(test, tuple(body)))

    def _if_it_exists(self, into: Statements, point: Callable[[Statements], None]) -> None:
        if self.stage.exists is None or self.is_tested:
            point(into)
        else:
            self._if(self._existence(into), into, point)

    def _value(self, root: Expression, into: Statements) -> Scalar:
        return self.scalars.value(root, into, self.values)

    def element_at(
        self, array: Var, buffer: Buffer, entries: Sequence[Entry], into: Statements
    ) -> Element:
        places = tuple([self._place(entry, into) for entry in entries])
        return Element(array, places, computed_in(buffer.dtype))

    def _place(self, entry: Entry, into: Statements) -> Scalar:
        """Returns an index; one from data has a name, as elements are read and written there."""
        if not isinstance(entry, Expression):
            return self.scalars.index(entry)
        value, place = self._value(entry, into), self.scalars.local("at", "int64")
        value = value if value.dtype == "int64" else applied("cast", [value], "int64")
        into.append(Assign(place, stated(value)))
        return place

    # ---- totals

    def _reduction(self, test: Scalar | None, known: frozenset[Sym], into: Statements) -> None:
        """Writes one result; without any term, an element that others write, too, is not
        written."""
        if test is not None and not self.stage.unique:
            self._if(test, into, lambda body: self._result(None, known, body))
        else:
            self._result(test, known, into)

    def _result(self, test: Scalar | None, known: frozenset[Sym], into: Statements) -> None:
        stage = self.stage
        total, number = self._start(stage, into)

        def term(_: frozenset[Sym], into: Statements) -> None:
            self._if_it_exists(into, lambda body: self._add(stage, total, number, body))

        def terms(body: Statements) -> None:
            self._nest(stage.reduce, known, body, term)

        if test is None:
            terms(into)
        else:
            self._if(test, into, terms)
        self._keep(stage, self._finish(stage, total, number, into), into)

    @staticmethod
    def _combined(stage: Stage, total: Scalar, value: Scalar) -> Scalar:
        return accumulated(MONOIDS[stage.monoid or ""].combine, total, value)

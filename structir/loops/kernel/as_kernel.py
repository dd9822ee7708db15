"""Groups of stages as naive kernels: loops over the common axes, with each stage in its own loops.
Every stage except a routine has such a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import attrs

from structir.ir import dims
from structir.ir.binding_dims import bound_dims
from structir.ir.dims import Dim, Sym, syms
from structir.ir.dtype import is_float
from structir.ir.expr import Var
from structir.ir.kernel import (
    KERNEL_DTYPES,
    Apply,
    Assign,
    Branch,
    Element,
    For,
    Kernel,
    KernelStatement,
    Literal,
    Local,
    Scalar,
    Scratch,
    computed_in,
)
from structir.ir.kernel_functions import NARROW, ROUND
from structir.ir.struct_info import PrimStructInfo, TensorStructInfo
from structir.loops.fusion.group import Group
from structir.loops.fusion.simplify import simplified
from structir.loops.lower.as_scalar import (
    ACCUMULATE,
    NO_PARAMETERS,
    KernelParameters,
    NotShown,
    Scalars,
    applied,
    literal,
    stated,
)
from structir.loops.lower.rounding import are_skipped, rounded, stored
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import Entry, Expression, Load, axis_dim
from structir.loops.program.stage import Guard, Stage
from structir.projections.monoid import MONOIDS

PICKING = {"argmax": "gt", "argmin": "lt"}


@attrs.frozen(eq=False)
class ShownKernel:
    """Groups as a kernel: its operands, its size parameters, its results."""

    kernel: Kernel
    reads: tuple[Buffer, ...]
    numbers: tuple[Sym, ...]
    fills: tuple[Buffer, ...]


def shown_kernel(
    groups: Sequence[Group], name: str, parameters: KernelParameters = NO_PARAMETERS
) -> ShownKernel:
    """Returns the kernel of groups in their order; raises NotShown if kernels cannot express
    them."""
    refused = [s.out for group in groups for s in group.stages if s.routine is not None]
    if refused:
        reason = "a function over whole arrays"
        raise NotShown(reason, dict.fromkeys(refused, reason))
    return KernelNodeWriter(groups, name, parameters).kernel()


class KernelNodeWriter:
    """Writes the kernel of groups; subclasses write other loops around their stages."""

    def __init__(self, groups: Sequence[Group], name: str, parameters: KernelParameters) -> None:
        self.groups, self.name, self.parameters = groups, name, parameters
        self.group = groups[0]  # the group being written,
        self.stage = self.group.stages[0]  # and its stage
        self.scalars = Scalars(self.read, parameters)
        self.params: dict[Buffer, Var] = {}  # of operands
        self.fills: dict[Buffer, Var] = {}
        self.inside: dict[Buffer, tuple[Stage, Var | Local]] = {}  # computed here and not stored
        self.scratch: list[KernelStatement] = []
        self.done: set[Buffer] = set()

    def kernel(self) -> ShownKernel:
        """Returns the kernel; raises NotShown, with a stage that has no kernel form."""
        try:
            return self._kernel()
        except NotShown as error:
            raise NotShown(str(error), {self.stage.out: str(error)}) from error

    def _kernel(self) -> ShownKernel:
        for group in self.groups:
            for stage in group.stages:
                if stage.out in group.kept and stage.out not in self.fills:
                    self.fills[stage.out] = self._array(f"out{len(self.fills)}", stage.out)
        body: list[KernelStatement] = []
        for group in self.groups:
            self.group = group
            self.write_group(body)
        infos = [v.struct_info for v in (*self.params.values(), *self.fills.values())]
        mentioned = dict(self.scalars.symbols)
        for info in (
            *infos,
            *[s.array.struct_info for s in self.scratch if isinstance(s, Scratch)],
        ):
            for dim in info.dims:  # type: ignore[attr-defined]
                mentioned |= dict.fromkeys(sorted(syms(dim), key=lambda s: s.order))
        numbers = tuple([s for s in mentioned if s not in bound_dims(infos)])
        told = [Var(f"{s.name}_", PrimStructInfo("int64", dims.as_dim(s))) for s in numbers]
        params = (
            *self.params.values(),
            *told,
            *self.parameters.numbers.values(),
            *self.fills.values(),
        )
        kernel = Kernel(params, (*self.scratch, *body), self.name)
        return ShownKernel(kernel, tuple(self.params), numbers, tuple(self.fills))

    def write_group(self, into: list[KernelStatement]) -> None:
        """Writes the current group."""
        self._loops(self.group.stages[0], self._rows(), into, self.row)

    def _rows(self) -> tuple[Sym, ...]:
        """Returns the axes that all stages of the group share; a scan has none."""
        alone = any(stage.running is not None for stage in self.group.stages)
        rows = () if alone else self.group.rows
        if not {*rows} <= {*self.group.stages[0].extents}:
            raise NotShown("stages without common loops")
        return rows

    def _array(self, name: str, buffer: Buffer) -> Var:
        if buffer.dtype not in KERNEL_DTYPES:
            raise NotShown(f"an array of {buffer.dtype}")
        return Var(name, TensorStructInfo(self.parameters.shape(buffer.shape), buffer.dtype))

    # ---- loops

    def _loops(
        self,
        stage: Stage,
        axes: Sequence[Sym],
        into: list[KernelStatement],
        inner: object,
        stem: str = "i",
        backward: bool = False,
    ) -> None:
        """Writes loops over some axes of a stage around the statements of `inner`."""
        if not axes:
            inner(into)  # type: ignore[operator]
            return
        axis, *rest = axes
        variable = self.scalars.local(stem, "int64")
        self.scalars.axes[axis] = variable
        body: list[KernelStatement] = []
        self._loops(stage, rest, body, inner, stem, backward)
        del self.scalars.axes[axis]
        start, stop = self.ends_of(stage, axis)
        if backward:
            last = Apply("sub", (stop, Literal(1, "int64")), "int64")
            into.append(For(variable, last, Literal(-1, "int64"), -1, tuple(body)))
        else:
            into.append(For(variable, start, stop, 1, tuple(body)))

    def ends_of(self, stage: Stage, axis: Sym) -> tuple[Scalar, Scalar]:
        """Returns the first position of a loop along an axis, and the one after its last."""
        return Literal(0, "int64"), self.scalars.index(stage.extents[axis])

    def row(self, into: list[KernelStatement]) -> None:
        for stage in self.group.stages:
            self.stage = stage
            inner = self.inner_axes(stage)
            if self.array_of(stage.out) is None:
                self._make_room(stage, inner)
            if stage.running is not None:
                inner.remove(stage.running.target)
            self._loops(stage, inner, into, lambda body, s=stage: self._point(s, body), "j")
            self.done.add(stage.out)

    def inner_axes(self, stage: Stage) -> list[Sym]:
        """Returns the axes of a stage inside of a row."""
        return [axis for axis in stage.parallel if axis not in self._rows()]

    def extent_of(self, stage: Stage, axis: Sym) -> Dim:
        """Returns the number of positions along an axis of the loops of a stage."""
        return stage.extents[axis]

    def _make_room(self, stage: Stage, inner: list[Sym]) -> None:
        """Allocates an intermediate value: a scalar, or an array for a row."""
        if stage.written_axes is None:
            raise NotShown("a value inside that is not at its own point")
        dtype, name = computed_in(stage.out.dtype), f"row{len(self.scratch)}"
        if not inner:
            self.inside[stage.out] = stage, self.scalars.local("t", dtype)
            return
        shape = self.parameters.shape([self.extent_of(stage, axis) for axis in inner])
        array = Var(name, TensorStructInfo(shape, dtype))
        is_partial = bool(stage.guards) or stage.exists is not None
        self.scratch.append(Scratch(array, zeros=is_partial))
        self.inside[stage.out] = stage, array

    # ---- points

    def _point(self, stage: Stage, into: list[KernelStatement]) -> None:
        """Writes one element: its value, or the total of its terms, if the point exists."""
        if stage.running is not None:
            self._scan(stage, into)
        elif not stage.reduce:
            self._where(stage, stage.guards, into, lambda body: self._map(stage, body))
        elif stage.unique:
            self._keep(stage, self._total(stage, stage.guards, into), into)
        else:  # without any term, the index does not exist either
            inner = [g for g in stage.guards if dims.syms(g.value) & set(stage.reduce)]
            outer = [g for g in stage.guards if g not in inner]
            body = self._guarded(outer, into)
            self._keep(stage, self._total(stage, inner, body), body)
            self._close(outer, body, into)

    def _map(self, stage: Stage, into: list[KernelStatement]) -> None:
        self._keep(stage, self._value(self._stored(stage, stage.body), into), into)

    def _value(self, root: Expression, into: list[KernelStatement]) -> Scalar:
        """Writes the value of an expression at a point."""
        return self.scalars.value(root, into)

    def _stored(self, stage: Stage, body: Expression) -> Expression:
        """Returns the value of a stage as it is stored: a store to memory rounds, other values are
        rounded to the dtype of the op."""
        adapt = rounded if self.array_of(stage.out) is None else stored
        return adapt(simplified(body), stage.out.dtype)

    def _where(
        self,
        stage: Stage,
        guards: Sequence[Guard],
        into: list[KernelStatement],
        point: Callable[[list[KernelStatement]], None],
    ) -> None:
        """Writes a point under its existence conditions."""
        body = self._guarded(guards, into)
        if stage.exists is None:
            point(body)
        else:
            test = self.scalars.value(stage.exists, body)
            inner: list[KernelStatement] = []
            point(inner)
            body.append(Branch(test, tuple(inner)))
        otherwise: list[KernelStatement] = []
        if stage.otherwise is not None and guards:
            value = self.scalars.value(self._stored(stage, stage.otherwise), otherwise)
            self._keep(stage, value, otherwise)
        self._close(guards, body, into, otherwise)

    @staticmethod
    def _guarded(guards: Sequence[Guard], into: list[KernelStatement]) -> list[KernelStatement]:
        """Returns the statement list of a point: its own, if it has guards."""
        return [] if guards else into

    def _close(
        self,
        guards: Sequence[Guard],
        body: list[KernelStatement],
        into: list[KernelStatement],
        otherwise: Sequence[KernelStatement] = (),
    ) -> None:
        """Adds statements under their guards."""
        if guards:
            zero = Literal(0, "int64")
            tests = [Apply("ge", (self.scalars.index(g.value), zero), "bool") for g in guards]
            test: Scalar = reduce(lambda a, b: Apply("and", (a, b), "bool"), tests)
            into.append(Branch(test, tuple(body), tuple(otherwise)))

    # ---- totals

    def _total(self, stage: Stage, guards: Sequence[Guard], into: list[KernelStatement]) -> Scalar:
        """Writes the reduction of an element, and returns its total."""
        total, number = self._start(stage, into)

        def term(body: list[KernelStatement]) -> None:
            self._where(stage, guards, body, lambda inner: self._add(stage, total, number, inner))

        self._loops(stage, stage.reduce, into, term, "k")
        return self._finish(stage, total, number, into)

    @staticmethod
    def _finish(stage: Stage, total: Local, number: Local, into: list[KernelStatement]) -> Scalar:
        """Returns the result of a reduction over all terms."""
        if stage.monoid in PICKING:
            return number
        if stage.monoid == "mean":
            count = applied("cast", [number], total.dtype)
            fn = "div" if is_float(total.dtype) else "quotient"
            into.append(Assign(total, applied(fn, [total, count], total.dtype)))
        return total

    def _start(self, stage: Stage, into: list[KernelStatement]) -> tuple[Local, Local]:
        """Initialises a total; returns it, and the index or the number of terms."""
        picks, monoid = stage.monoid in PICKING, MONOIDS[stage.monoid or ""]
        dtype = stage.body.dtype if picks else computed_in(stage.out.dtype)
        total = number = self.scalars.local("total", dtype)
        into.append(Assign(total, stated(literal(monoid.identity(dtype), dtype))))
        if picks or stage.monoid == "mean":
            number = self.scalars.local("at" if picks else "count", "int64")
            into.append(Assign(number, stated(literal(0, "int64"))))
        return total, number

    def _add(self, stage: Stage, total: Local, number: Local, into: list[KernelStatement]) -> None:
        """Adds a term to a total."""
        value, monoid = self._value(simplified(stage.body), into), stage.monoid or ""
        if monoid in PICKING:
            better = _exceeds(value, total, monoid)
            if is_float(value.dtype):
                fresh = [Apply("ne", (value, value), "bool"), Apply("eq", (total, total), "bool")]
                better = Apply("or", (better, Apply("and", tuple(fresh), "bool")), "bool")
            place = Assign(number, self.scalars.index(self._running_number(stage)))
            into.append(Branch(better, (Assign(total, value), place)))
            return
        if value.dtype != total.dtype:
            value = applied("cast", [value], total.dtype)
        into.append(Assign(total, self._combined(stage, total, value)))
        if monoid == "mean":
            into.append(Assign(number, Apply("add", (number, Literal(1, "int64")), "int64")))

    @staticmethod
    def _combined(stage: Stage, total: Scalar, value: Scalar) -> Scalar:
        combine = MONOIDS[stage.monoid or ""].combine
        return applied(f"{ACCUMULATE}{combine}", [total, value], total.dtype)

    @staticmethod
    def _running_number(stage: Stage) -> Dim:
        """Returns the linear index of a term, in row-major order."""
        number: Dim = 0
        for axis in stage.reduce:
            number = number * stage.extents[axis] + axis_dim(axis)
        return number

    def _scan(self, stage: Stage, into: list[KernelStatement]) -> None:
        """Writes a scan: one pass along its axis, which stores the total before or after each
        term."""
        running = stage.running
        assert running is not None
        total, count = self._start(stage, into)
        backward = running.op not in ("le", "lt")

        def step(body: list[KernelStatement]) -> None:
            number = self.scalars.local("at", "int64")
            body.append(Assign(number, stated(self.scalars.index(self._running_number(stage)))))
            self.scalars.axes[running.target] = number
            if running.op in ("le", "ge"):
                self._add(stage, total, count, body)
            self._keep(stage, total, body)
            if running.op not in ("le", "ge"):
                self._add(stage, total, count, body)
            del self.scalars.axes[running.target]

        self._loops(stage, stage.reduce, into, step, "k", backward)

    def _keep(self, stage: Stage, value: Scalar, into: list[KernelStatement]) -> None:
        dtype = computed_in(stage.out.dtype)
        if value.dtype != dtype:
            value = applied("cast", [value], dtype)
        array = self.array_of(stage.out)
        if array is not None:
            element = self.element_at(array, stage.out, stage.write, into)
            if stage.monoid and not stage.unique:
                value = self._combined(stage, element, value)
            into.append(Assign(element, value))
            return
        _, room = self.inside[stage.out]
        if stage.reduce and stage.out.dtype in NARROW and not are_skipped():
            value = applied(f"{ROUND}{stage.out.dtype}", [value], dtype)
        if isinstance(room, Local):
            into.append(Assign(room, stated(value)))
            return
        inner = [self.scalars.axes[axis] for axis in self.inner_axes(stage)]
        into.append(Assign(Element(room, tuple(inner), dtype), value))

    def read(self, load: Load, into: list[KernelStatement]) -> Scalar:
        """Returns the value of a load."""
        local = self.inside.get(load.buffer)
        if local is not None:
            return self._read_inside(load, *local, into)
        array = self.array_of(load.buffer)
        if array is not None and load.buffer not in self.done:
            raise NotShown("a value is read before it is local")
        if array is None:
            array = self.parameter(load.buffer)
        return self.element_at(array, load.buffer, load.entries, into)

    def array_of(self, buffer: Buffer) -> Var | None:
        """Returns the memory of a value that the kernel stores."""
        return self.fills.get(buffer)

    def parameter(self, buffer: Buffer) -> Var:
        """Returns the parameter of an operand."""
        if buffer not in self.params:
            self.params[buffer] = self._array(f"x{len(self.params)}", buffer)
        return self.params[buffer]

    def element_at(
        self, array: Var, buffer: Buffer, entries: Sequence[Entry], into: list[KernelStatement]
    ) -> Element:
        """Returns an element of the memory of a buffer."""
        indices = tuple([self.scalars.place(e, into) for e in entries])
        return Element(array, indices, computed_in(buffer.dtype))

    def _read_inside(
        self, load: Load, stage: Stage, room: Var | Local, into: list[KernelStatement]
    ) -> Scalar:
        if isinstance(room, Local):
            return room
        at: dict[Sym, object] = {}
        for written, entry in zip(stage.write, load.entries, strict=True):
            axis = None if isinstance(written, Expression) else dims.as_sym(written)
            if axis is not None:
                at[axis] = entry
        inner = self.inner_axes(stage)
        indices = tuple([self.scalars.place(at[axis], into) for axis in inner])  # type: ignore[arg-type]
        return Element(room, indices, computed_in(load.buffer.dtype))


def _exceeds(value: Scalar, total: Scalar, monoid: str) -> Scalar:
    """Returns whether a term is better than the extreme so far. Kernels do not order booleans."""
    if value.dtype != "bool":
        return Apply(PICKING[monoid], (value, total), "bool")
    one, other = (value, total) if monoid == "argmax" else (total, value)
    return Apply("and", (one, Apply("not", (other,), "bool")), "bool")

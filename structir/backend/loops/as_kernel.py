"""Groups of stages as kernels of the program: loops over the common axes, and in them each stage in
its own loops."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from structir.backend.loops.as_scalar import NotShown, Scalars, applied, literal, stated
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.expression import Expression, Load, computed_in
from structir.backend.loops.group import Group
from structir.backend.loops.simplify import simplified
from structir.backend.loops.stage import Stage
from structir.ir import dims
from structir.ir.binding_dims import bound_dims
from structir.ir.dims import Dim, Sym, syms
from structir.ir.expr import Var
from structir.ir.kernel import (
    KERNEL_DTYPES,
    Assign,
    Element,
    For,
    Kernel,
    KernelStatement,
    Literal,
    Local,
    Scalar,
    Scratch,
)
from structir.ir.struct_info import PrimStructInfo, TensorStructInfo
from structir.projections.monoid import MONOIDS

SHOWN_MONOIDS = frozenset({"sum", "prod", "max", "min", "any", "all"})


@attrs.frozen(eq=False)
class ShownKernel:
    """A group as a kernel: what it reads, which sizes it is told, what it fills."""

    kernel: Kernel
    reads: tuple[Buffer, ...]
    numbers: tuple[Sym, ...]
    fills: tuple[Buffer, ...]


def shown_kernel(group: Group, name: str) -> ShownKernel:
    """The kernel of a group; NotShown where kernels cannot say what it does."""
    refused = [stage.out for stage in group.stages if not _plain(stage)]
    if refused:
        raise NotShown("a stage of a form of its own", refused)
    writer = _KernelNodeWriter(group, name)
    try:
        return writer.kernel()
    except NotShown as error:
        raise NotShown(str(error), [writer.stage.out]) from error


def _plain(stage: Stage) -> bool:
    monoid = stage.monoid is None or (bool(stage.reduce) and stage.monoid in SHOWN_MONOIDS)
    alone = stage.running is not None or stage.exists is not None or stage.routine is not None
    return monoid and stage.unique and not alone and not stage.guards


class _KernelNodeWriter:
    def __init__(self, group: Group, name: str) -> None:
        self.group, self.name = group, name
        self.scalars = Scalars(self.read)
        self.params: dict[Buffer, Var] = {}  # of what is read from outside
        self.fills: dict[Buffer, Var] = {}
        self.inside: dict[Buffer, tuple[Stage, Var | Local]] = {}  # made here, kept nowhere
        self.scratch: list[KernelStatement] = []
        self.done: set[Buffer] = set()
        self.stage = group.stages[0]  # which is being written

    def kernel(self) -> ShownKernel:
        """The whole, parameters from what was met."""
        for stage in self.group.stages:
            if stage.out in self.group.kept and stage.out not in self.fills:
                self.fills[stage.out] = self._array(f"out{len(self.fills)}", stage.out)
        body: list[KernelStatement] = []
        self._loops(self.group.stages[0], self.group.rows, body, self._row)
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
        params = (*self.params.values(), *told, *self.fills.values())
        kernel = Kernel(params, (*self.scratch, *body), self.name)
        return ShownKernel(kernel, tuple(self.params), numbers, tuple(self.fills))

    def _array(self, name: str, buffer: Buffer) -> Var:
        if buffer.dtype not in KERNEL_DTYPES:
            raise NotShown(f"an array of {buffer.dtype}")
        return Var(name, TensorStructInfo(buffer.shape, buffer.dtype))

    # ---- loops

    def _loops(
        self,
        stage: Stage,
        axes: Sequence[Sym],
        into: list[KernelStatement],
        inner: object,
        stem: str = "i",
    ) -> None:
        """Loops over some axes of a stage around what `inner` writes."""
        if not axes:
            inner(into)  # type: ignore[operator]
            return
        axis, *rest = axes
        variable = self.scalars.local(stem, "int64")
        self.scalars.axes[axis] = variable
        body: list[KernelStatement] = []
        self._loops(stage, rest, body, inner, stem)
        del self.scalars.axes[axis]
        stop = self.scalars.index(stage.extents[axis])
        into.append(For(variable, Literal(0, "int64"), stop, 1, tuple(body)))

    def _row(self, into: list[KernelStatement]) -> None:
        for stage in self.group.stages:
            self.stage = stage
            inner = [axis for axis in stage.parallel if axis not in self.group.rows]
            if stage.out not in self.fills:
                self._make_room(stage, inner)
            self._loops(stage, inner, into, lambda body, s=stage: self._point(s, body), "j")
            self.done.add(stage.out)

    def _make_room(self, stage: Stage, inner: list[Sym]) -> None:
        """Where a value lives that nothing outside reads: a number, or an array for the row."""
        if stage.written_axes is None:
            raise NotShown("a value inside that is not at its own point")
        dtype, name = stage.out.dtype, f"row{len(self.scratch)}"
        if not inner and computed_in(dtype) == dtype:
            self.inside[stage.out] = stage, self.scalars.local("t", dtype)
            return
        shape: tuple[Dim, ...] = tuple([stage.extents[axis] for axis in inner])
        array = Var(name, TensorStructInfo(shape, dtype))
        self.scratch.append(Scratch(array))
        self.inside[stage.out] = stage, array

    # ---- points

    def _point(self, stage: Stage, into: list[KernelStatement]) -> None:
        """One element: its value, or the total of its terms."""
        if not stage.reduce:
            self._keep(stage, self.scalars.value(simplified(stage.body), into), into)
            return
        dtype, monoid = computed_in(stage.out.dtype), MONOIDS[stage.monoid or ""]
        total = self.scalars.local("total", dtype)
        into.append(Assign(total, stated(literal(monoid.identity(dtype), dtype))))

        def term(body: list[KernelStatement]) -> None:
            value = self.scalars.value(simplified(stage.body), body)
            if value.dtype != dtype:
                value = applied("cast", [value], dtype)
            body.append(Assign(total, applied(monoid.combine, [total, value], dtype)))

        self._loops(stage, stage.reduce, into, term, "k")
        self._keep(stage, total, into)

    def _keep(self, stage: Stage, value: Scalar, into: list[KernelStatement]) -> None:
        dtype = computed_in(stage.out.dtype)
        if value.dtype != dtype:
            value = applied("cast", [value], dtype)
        if stage.out in self.fills:
            indices = tuple([self.scalars.place(e, into) for e in stage.write])
            into.append(Assign(Element(self.fills[stage.out], indices, dtype), value))
            return
        _, room = self.inside[stage.out]
        if isinstance(room, Local):
            into.append(Assign(room, stated(value)))
            return
        inner = [self.scalars.axes[a] for a in stage.parallel if a not in self.group.rows]
        into.append(Assign(Element(room, tuple(inner), dtype), value))

    def read(self, load: Load, into: list[KernelStatement]) -> Scalar:
        """The number that a load stands for."""
        made = self.inside.get(load.buffer)
        if made is not None:
            return self._read_inside(load, *made, into)
        array = self.fills.get(load.buffer)
        if array is not None and load.buffer not in self.done:
            raise NotShown("a value is read before it is made")
        if array is None:
            array = self.params.get(load.buffer)
        if array is None:
            array = self.params[load.buffer] = self._array(f"x{len(self.params)}", load.buffer)
        indices = tuple([self.scalars.place(e, into) for e in load.entries])
        return Element(array, indices, computed_in(load.buffer.dtype))

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
        inner = [axis for axis in stage.parallel if axis not in self.group.rows]
        indices = tuple([self.scalars.place(at[axis], into) for axis in inner])  # type: ignore[arg-type]
        return Element(room, indices, computed_in(load.buffer.dtype))

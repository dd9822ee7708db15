"""Scans whose steps are maps: one kernel runs all steps, with the states in place.

Each element of a state depends only on the same element before the step. The kernel loops over
steps around loops over elements; parts of the elements are independent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Call, Function, Var
from structir.ir.kernel import (
    VECTOR,
    Apply,
    Assign,
    Element,
    For,
    KernelStatement,
    Local,
    LoopVariable,
    Part,
    Scalar,
    computed_in,
    nodes_of,
)
from structir.ir.scalar_functions import declared
from structir.ir.struct_info import TensorStructInfo
from structir.lazy import lazy_module
from structir.loops.emit.short_loops import LANES
from structir.loops.fusion.group import Group
from structir.loops.kernel.as_kernel import KernelNodeWriter
from structir.loops.lower.as_scalar import NO_PARAMETERS, NotShown
from structir.loops.lower.rounding import roundings
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import Expression, Load, NoKernelError, load, substituted
from structir.loops.program.stage import KernelCall, Stage, routine_stages
from structir.loops.regions.segment_rows import rows_call
from structir.loops.schedule.edits import calculate, integer

regions = lazy_module("structir.loops.regions.region")


@attrs.frozen(eq=False)
class ScanOperands:
    """The operands of a scan, as buffers of the region."""

    states: Sequence[Buffer]
    scanned: Sequence[Buffer]
    captured: Sequence[Buffer]

    @property
    def shapes(self) -> list[tuple[Dim, ...]]:
        """The shapes of the parameters of the body."""
        slices = [b.shape[1:] for b in self.scanned]
        return [*[b.shape for b in self.states], *slices, *[b.shape for b in self.captured]]


def scan_of_maps(
    region: Any, call: Call, body: Function, parts: Sequence[Any], origin: str
) -> tuple[Buffer, ...]:
    """Adds the stages of a scan to a region; returns its final states and stacked outputs.

    Raises NoKernelError unless the body consists of maps over the elements of the states.
    """
    fields = [part if isinstance(part, tuple) else (part,) for part in (*parts, ())[:3]]
    operands = ScanOperands(*fields)
    if not all([isinstance(b, Buffer) for field in fields for b in field]) or not fields[0]:
        raise NoKernelError("a scan without states, or of nested values")
    lowering = regions.RegionLowering(_sizes(body.params, operands))
    inputs = [lowering.lowered(param) for param in body.params]
    for binding in body.body.bindings():
        lowering.add(binding)
    results = lowering.lowered(body.body.body)
    results = results if isinstance(results, tuple) else (results,)
    if lowering.checks or len(lowering.inputs) > len(inputs):
        raise NoKernelError("a step with checks, or one that reads other values")
    try:
        with roundings(skipped=False):
            kernel = _ScanKernel(operands, inputs, results, lowering.stages)
            routine = kernel.kernel_call()
    except NotShown as refused:
        raise NoKernelError(str(refused)) from refused
    region.constants |= lowering.constants
    region.kept_alive += lowering.kept_alive
    reads = [*operands.states, *operands.scanned, *operands.captured]
    region.stages += routine_stages(list(dict.fromkeys(reads)), kernel.outs, routine, origin)
    return tuple(kernel.outs)


def _sizes(params: Sequence[Var], operands: ScanOperands) -> Mapping[Sym, Dim]:
    """Returns the sizes of the symbols of a body; raises NoKernelError for operands of other
    forms than its parameters."""
    sizes: dict[Sym, Dim] = {}
    infos: list[Any] = [param.struct_info for param in params]
    shapes = operands.shapes
    if len(shapes) != len(params) or not all(map(_has_shape, infos)):
        raise NoKernelError("a step whose parameters have unknown shapes")
    pairs = [(info.dims, shape) for info, shape in zip(infos, shapes, strict=True)]
    if any([len(declared_dims) != len(shape) for declared_dims, shape in pairs]):
        raise NoKernelError("a step whose parameters have other ranks")
    axes = [axis for pair in pairs for axis in zip(*pair, strict=True)]
    for dim, size in axes:
        symbol = dims.as_sym(dim)
        if symbol is not None:
            sizes.setdefault(symbol, size)
    if any([dims.substitute(dim, sizes) != size for dim, size in axes]):
        raise NoKernelError("a step whose parameters have other sizes")
    buffers = [*operands.states, *operands.scanned, *operands.captured]
    if [info.dtype for info in infos] != [b.dtype for b in buffers]:
        raise NoKernelError("a step whose parameters have other dtypes")
    return {symbol: size for symbol, size in sizes.items() if dims.as_dim(symbol) != size}


def _has_shape(info: Any) -> bool:
    return isinstance(info, TensorStructInfo) and type(info.dims) is tuple


class _ScanKernel:
    """Writes the kernel of a scan."""

    def __init__(
        self,
        operands: ScanOperands,
        inputs: Sequence[Buffer],
        results: Sequence[Buffer],
        stages: Sequence[Stage],
    ) -> None:
        self.operands, self.results = operands, results
        self.shape, self.steps = operands.states[0].shape, operands.scanned[0].shape[0]
        count, slices = len(operands.states), len(operands.scanned)
        self._check(results, stages, count)
        self.axes = stages[0].parallel
        common = tuple([_at_axes(stage, self.axes) for stage in stages])
        group = Group("rows", common, self.axes, frozenset())
        self.writer = _StepWriter(group, self)
        self.scalars = self.writer.scalars
        self.step = LoopVariable("step", "int64")
        self.entries = tuple(map(dims.as_dim, self.axes))
        self.is_flat = all([self._is_at_each_element(stage) for stage in common])
        self.extents = (prod(self.shape),) if self.is_flat else self.shape
        self.loops = [LoopVariable(f"at{k}", "int64") for k in range(len(self.extents))]
        if not self.is_flat:
            self.scalars.axes = dict(zip(self.axes, self.loops, strict=True))
        self.state_of = dict(zip(inputs[:count], range(count), strict=True))
        self.slice_of = dict(zip(inputs[count : count + slices], operands.scanned, strict=True))
        self.captured_of = dict(zip(inputs[count + slices :], operands.captured, strict=True))
        self.arrays: dict[Buffer, Var] = {}
        self.locals = [
            Local(f"state{k}", self.writer.dtype_of(b)) for k, b in enumerate(operands.states)
        ]
        outputs = [Buffer((self.steps, *self.shape), b.dtype) for b in results[count:]]
        self.outs = [*[Buffer(self.shape, b.dtype) for b in operands.states], *outputs]

    def _check(self, results: Sequence[Any], stages: Sequence[Stage], count: int) -> None:
        """Raises NoKernelError unless all values have the shape of the states."""
        values = [*self.operands.states, *results, *[stage.out for stage in stages]]
        if not all([isinstance(b, Buffer) and b.root is b for b in results]):
            raise NoKernelError("a step with a view as result")
        if not stages or any([value.shape != self.shape for value in values]):
            raise NoKernelError("values of a step of other shapes than its states")
        pairs = zip(self.operands.states, results[:count], strict=True)
        if len(results) < count or any([old.dtype != new.dtype for old, new in pairs]):
            raise NoKernelError("a state that changes its dtype")
        if any([b.shape[0] != self.steps for b in self.operands.scanned]):
            raise NoKernelError("scanned tensors of different lengths")
        if not all(map(_is_map, stages)):
            raise NoKernelError("a step that is not a map")

    def _is_at_each_element(self, stage: Stage) -> bool:
        """Whether a stage reads only scalars and the same element of each operand: one loop is over
        all elements."""
        reads = [read.entries in (self.entries, ()) for read in stage.loads]
        return len(self.shape) > 1 and all(reads) and not stage.pinned

    def kernel_call(self) -> KernelCall:
        """Returns the kernel, called with the operands and the results."""
        low, high = Local("low", "int64"), Local("high", "int64")
        first = [Assign(self._of(out), self._of(b)) for out, b in self._states()]
        steps = self.scalars.index(self.steps)
        body = (
            *self._nest(low, high, first),
            For(self.step, integer(0), steps, 1, self._nest(low, high, [*self._statements()])),
        )
        for out in self.outs:
            self.array(out)
        extent = self.extents[0] if self.shape else 1
        if not self.shape:
            body = (For(LoopVariable("one", "int64"), low, high, 1, body),)
        kernel = (Part(low, high, extent), *body)
        return rows_call(self.arrays, self.outs, kernel, self.scalars, extent)

    def _states(self) -> Iterator[tuple[Buffer, Buffer]]:
        """Yields the final and the first value of each state."""
        yield from zip(self.outs, self.operands.states, strict=False)

    def _nest(
        self, low: Scalar, high: Scalar, body: Sequence[KernelStatement]
    ) -> tuple[KernelStatement, ...]:
        """Returns the loops over the elements of a part."""
        statements = tuple(body)
        kind = VECTOR if _calls_functions(body) else ""
        if kind and len(self.extents) > 1 and not _is_long(self.extents[-1]):
            raise NotShown("functions in loops that may be short: schedules take several rows")
        for k in reversed(range(len(self.extents))):
            stop = self.scalars.index(self.extents[k])
            ends = (low, high) if k == 0 else (integer(0), stop)
            statements = (For(self.loops[k], *ends, 1, statements, kind=kind),)
            kind = ""
        return statements

    def _statements(self) -> Iterator[KernelStatement]:
        """Yields the statements of an element in a step: all states are read before any is
        written."""
        for local, (out, _) in zip(self.locals, self._states(), strict=True):
            yield Assign(local, self._of(out))
        statements: list[KernelStatement] = []
        self.writer.row(statements)
        yield from statements
        values = [self._value(result) for result in self.results]
        count = len(self.operands.states)
        for k, (out, value) in enumerate(zip(self.outs, values, strict=True)):
            element = self._of(out) if k < count else self._of(out, self.step)
            yield Assign(element, value)

    def _value(self, result: Buffer) -> Scalar:
        """Returns the value of a result of the step."""
        return self.writer.read(load(result, self.entries), [])

    def _of(self, buffer: Buffer, *outer: Scalar) -> Element:
        """Returns the element of a buffer at the loops over elements."""
        return self.element(buffer, self.loops, *outer)

    def element(self, buffer: Buffer, indices: Sequence[Scalar], *outer: Scalar) -> Element:
        """Returns an element of a buffer; `outer` is the step, or nothing."""
        array, dtype = self.array(buffer), self.writer.dtype_of(buffer)
        if not self.is_flat or not indices:
            return Element(array, (*outer, *indices), dtype)
        (index,) = indices
        for step in outer:
            index = calculate("add", calculate("mul", step, self._size()), index)
        return Element(array, (index,), dtype, flat=True)

    def _size(self) -> Scalar:
        """Returns the number of elements of a state."""
        return self.scalars.index(self.extents[0])

    def array(self, buffer: Buffer) -> Var:
        """Returns the array of a buffer."""
        if buffer not in self.arrays:
            info = TensorStructInfo(buffer.shape, buffer.dtype)
            self.arrays[buffer] = Var(f"x{len(self.arrays)}", info)
        return self.arrays[buffer]


class _StepWriter(KernelNodeWriter):
    """Writes the statements of one element in a step."""

    def __init__(self, group: Group, scan: _ScanKernel) -> None:
        super().__init__([group], "scan", NO_PARAMETERS)
        self.scan = scan

    @staticmethod
    def dtype_of(buffer: Buffer) -> str:
        """Returns the dtype in which the elements of a buffer are computed."""
        return computed_in(buffer.dtype)

    def read(self, load: Load, into: list[KernelStatement]) -> Scalar:
        """Returns the value of a load: a state at its own element, or any element of another
        operand."""
        scan, buffer = self.scan, load.buffer
        if buffer.root is not buffer:
            raise NotShown("a view of a value")
        if buffer in scan.state_of:
            if load.entries != scan.entries:
                raise NotShown("a state that is read at other elements")
            return scan.locals[scan.state_of[buffer]]
        local = self.inside.get(buffer)
        if local is not None:
            return self._read_inside(load, *local, into)
        is_flat = scan.is_flat and load.entries
        places = [] if is_flat else [self.scalars.place(entry, into) for entry in load.entries]
        indices = scan.loops if is_flat else places
        if buffer in scan.slice_of:
            return scan.element(scan.slice_of[buffer], indices, scan.step)
        return scan.element(scan.captured_of.get(buffer, buffer), indices)


def _calls_functions(body: Sequence[KernelStatement]) -> bool:
    """Whether statements call math functions."""
    return any([isinstance(n, Apply) and n.fn in declared() for s in body for n in nodes_of(s)])


def _is_long(extent: Dim) -> bool:
    """Whether a loop is known to fill a vector."""
    return isinstance(extent, int) and extent >= LANES


def _is_map(stage: Stage) -> bool:
    """Whether a stage computes each element at its own point."""
    return stage.direct and not stage.reduce and stage.written_axes == stage.parallel


def _at_axes(stage: Stage, axes: Sequence[Sym]) -> Stage:
    """Returns a map over other axes."""
    replacements = dict(zip(stage.parallel, map(dims.as_dim, axes), strict=True))
    body = substituted(stage.body, replacements)
    if body is None:
        raise NoKernelError("an index from data")
    write = tuple(
        [e if isinstance(e, Expression) else dims.substitute(e, replacements) for e in stage.write]
    )
    extents = {new: stage.extents[old] for old, new in zip(stage.parallel, axes, strict=True)}
    return attrs.evolve(stage, parallel=tuple(axes), extents=extents, body=body, write=write)

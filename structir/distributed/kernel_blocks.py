"""Kernels over blocks of their operands and results: the part of a shard.

Indices become relative to the blocks, stores outside of them are skipped, and loops run over the
required iterations only. A load of an element that the block does not have takes another one: the
projection of the kernel guarantees that it does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Var
from structir.ir.kernel import (
    Apply,
    Assign,
    Branch,
    Element,
    Extent,
    For,
    Kernel,
    KernelStatement,
    Literal,
    Scalar,
    Size,
    While,
)
from structir.ir.node import replace
from structir.ir.struct_info import PrimStructInfo, TensorStructInfo
from structir.projections.boxes import Bounds
from structir.projections.kernels.definitions import LoopValue
from structir.projections.kernels.iteration_ranges import Iterations, number_of
from structir.projections.kernels.kernel_spec import KernelProjection


@attrs.frozen(eq=False)
class KernelBlock:
    """A kernel over blocks, and the numbers that it receives after the operands."""

    kernel: Kernel
    numbers: tuple[int, ...]


def kernel_block(
    kernel: Kernel,
    projection: KernelProjection,
    sizes: Mapping[Sym, int],
    blocks: Sequence[tuple[Bounds, tuple[int, ...]]],
    iterations: Mapping[Sym, Iterations],
) -> KernelBlock:
    """Returns a kernel over blocks of its array parameters, given with the whole shapes.

    `iterations` are the required ones of each loop.
    """
    return _Restriction(kernel, projection, sizes, blocks, iterations).build()


class _Restriction:
    """The rewriting of one kernel."""

    def __init__(
        self,
        kernel: Kernel,
        projection: KernelProjection,
        sizes: Mapping[Sym, int],
        blocks: Sequence[tuple[Bounds, tuple[int, ...]]],
        iterations: Mapping[Sym, Iterations],
    ) -> None:
        assert projection.flow is not None
        self.kernel, self.sizes, self.iterations = kernel, sizes, iterations
        self.loops, self.index_vars = projection.flow.loops, projection.extents.keys()
        self.numbers: list[tuple[Sym, int]] = []
        self.starts: dict[Var, list[tuple[Dim, Dim] | None]] = {}
        self.arrays: dict[Var, Var] = {}
        arrays = [p for p in kernel.params if isinstance(p.struct_info, TensorStructInfo)]
        for param, (bounds, shape) in zip(arrays, blocks, strict=True):
            self._cut(param, bounds, shape)

    def _cut(self, param: Var, bounds: Bounds, shape: tuple[int, ...]) -> None:
        """Declares the block of an array: the start and the size of each axis that is cut."""
        info: Any = param.struct_info
        axes: list[Dim] = []
        starts: list[tuple[Dim, Dim] | None] = []
        for axis, (size, start, stop, whole) in enumerate(
            zip(info.dims, *bounds, shape, strict=True)
        ):
            if (start, stop) == (0, whole):
                axes.append(size)
                starts.append(None)
                continue
            width = dims.as_dim(Sym(f"{param.name}_width{axis}"))
            axes.append(width)
            starts.append((self.number(f"{param.name}_start{axis}", start), width))
        self.starts[param] = starts
        self.arrays[param] = Var(param.name, TensorStructInfo(tuple(axes), info.dtype), param.span)

    def number(self, name: str, value: int) -> Dim:
        """Declares a number that the kernel receives."""
        symbol = Sym(name)
        self.numbers.append((symbol, value))
        return dims.as_dim(symbol)

    def signed(self, name: str, value: int) -> Scalar:
        """Declares a number that may be -1: sizes are at least 0."""
        if value < -1:
            return Literal(value, "int64")
        return Size(self.number(f"{name}{len(self.numbers)}", value + 1) - 1)

    def build(self) -> KernelBlock:
        """Returns the kernel over the blocks."""
        body = self.block(self.kernel.body, ())
        bound = {s for p in self.kernel.operands for s in _bound_by_number(p)}
        own = [s for s in self.sizes if s not in bound]
        self.numbers += [(symbol, self.sizes[symbol]) for symbol in own]
        numbers = [
            Var(f"{symbol.name}_number", PrimStructInfo("int64", dims.as_dim(symbol)))
            for symbol, _ in self.numbers
        ]
        operands = [self.arrays.get(p, p) for p in self.kernel.operands]
        results = [self.arrays[p] for p in self.kernel.results]
        kernel = Kernel((*operands, *numbers, *results), body, self.kernel.name, self.kernel.span)
        return KernelBlock(kernel, tuple([value for _, value in self.numbers]))

    # ---- statements

    def block(
        self, statements: Sequence[KernelStatement], path: tuple[int, ...]
    ) -> tuple[KernelStatement, ...]:
        """Returns statements over the blocks; `path` is the position of their block."""
        return tuple([self.statement(s, (*path, k)) for k, s in enumerate(statements)])

    def statement(self, statement: KernelStatement, path: tuple[int, ...]) -> KernelStatement:
        """Returns a statement over the blocks."""
        match statement:
            case Assign(Element() as target, value, symbol, span):
                store = Assign(self.element(target), self.scalar(value), symbol, span)
                test = self.inside(target)
                return store if test is None else Branch(test, (store,), (), span)
            case Assign(target, value, symbol, span):
                return Assign(target, self.scalar(value), symbol, span)
            case For():
                return self.loop(statement, path)
            case Branch(test, then, otherwise, span):
                sides = [self.block(s, (*path, k)) for s, k in ((then, 1), (otherwise, 0))]
                return Branch(self.scalar(test), sides[0], sides[1], span)
            case While(test, body, span):
                return While(self.scalar(test), self.block(body, path), span)
        return statement

    def loop(self, loop: For, path: tuple[int, ...]) -> For:
        """Returns a loop over its required iterations."""
        start, stop = self.scalar(loop.start), self.scalar(loop.stop)
        body = self.block(loop.body, path)
        known = self.loops.get(path)
        base = None if known is None else self._base(known)
        if known is None or base is None:
            return replace(loop, start=start, stop=stop, body=body)
        first, last = self.iterations.get(known.index, (0, 0))
        low, high = base + first * known.step, base + (last - 1) * known.step
        if last <= first:
            low, high = base, base - (1 if known.step > 0 else -1)
        name = loop.variable.name
        near = self.signed(f"{name}_first", low)
        far = self.signed(f"{name}_end", high + (1 if known.step > 0 else -1))
        inner, outer = ("max", "min") if known.step > 0 else ("min", "max")
        start, stop = Apply(inner, (start, near), "int64"), Apply(outer, (stop, far), "int64")
        return replace(loop, start=start, stop=stop, body=body)

    def _base(self, loop: LoopValue) -> int | None:
        """Returns the variable of the first iteration; None if it depends on outer loops."""
        form = dims.linear(loop.value, loop.index)
        if form is None or form[0] != loop.step or dims.syms(form[1]) & self.index_vars:
            return None
        return number_of(form[1], self.sizes)

    # ---- scalars

    def scalar(self, scalar: Scalar) -> Scalar:
        """Returns a scalar over the blocks."""
        match scalar:
            case Element():
                return self.element(scalar, loads=True)
            case Extent(array, axis):
                info: Any = array.struct_info
                return Size(info.dims[axis]) if array in self.arrays else scalar
            case Apply(fn, args, dtype, span):
                return Apply(fn, tuple([self.scalar(arg) for arg in args]), dtype, span)
        return scalar

    def indices(self, element: Element) -> list[Scalar]:
        """Returns the index along each axis, for an array of which an axis is cut."""
        indices = [self.scalar(index) for index in element.indices]
        if not element.flat:
            return indices
        info: Any = element.array.struct_info
        rest, per_axis = indices[0], list[Scalar]()
        for size in reversed(info.dims[1:]):
            per_axis.insert(0, _apply("mod", rest, Size(size)))
            rest = _apply("floordiv", rest, Size(size))
        return [rest, *per_axis]

    def element(self, element: Element, loads: bool = False) -> Element:
        """Returns an element of a block."""
        array = self.arrays.get(element.array, element.array)
        starts = self.starts.get(element.array, [])
        if not any(starts):
            indices = tuple([self.scalar(index) for index in element.indices])
            return Element(array, indices, element.dtype, element.span, element.flat)
        moved: list[Scalar] = []
        for index, start in zip(self.indices(element), starts, strict=True):
            if start is not None:
                index = _apply("sub", index, Size(start[0]))
                if loads:
                    index = _apply("max", index, Literal(0, "int64"))
                    index = _apply("min", index, Size(start[1] - 1))
            moved.append(index)
        return Element(array, tuple(moved), element.dtype, element.span)

    def inside(self, element: Element) -> Scalar | None:
        """Returns the test that an element is in the block; None if no axis is cut."""
        starts = self.starts.get(element.array, [])
        tests: list[Scalar] = []
        for index, start in zip(self.indices(element), starts, strict=False):
            if start is not None:
                tests.append(_test("ge", index, Size(start[0])))
                tests.append(_test("lt", index, Size(start[0] + start[1])))
        return reduce(lambda a, b: _test("and", a, b), tests) if tests else None


def _apply(fn: str, first: Scalar, second: Scalar) -> Scalar:
    return Apply(fn, (first, second), "int64")


def _test(fn: str, first: Scalar, second: Scalar) -> Scalar:
    return Apply(fn, (first, second), "bool")


def _bound_by_number(param: Var) -> list[Sym]:
    info = param.struct_info
    symbol = dims.as_sym(info.value) if isinstance(info, PrimStructInfo) and info.value else None
    return [] if symbol is None else [symbol]

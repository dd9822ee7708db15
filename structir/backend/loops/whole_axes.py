"""Ops over whole axes: a plain Python function over arrays, called at each point."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any

import attrs

from structir.backend.cpu.functions import routine_source
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.expression import NoKernelError, axis_dim, load
from structir.backend.loops.stage import Routine, Stage, routine_stages
from structir.ir import dims
from structir.ir.dims import Dim, Poly, Sym
from structir.ir.kernel import computed_in
from structir.projections.spec import AccessIndex, IndexSpec, Statement

HELD = (bool, int, float, type(None))  # kinds of constants in a kernel's source


@attrs.frozen
class BufferPoint:
    """The view of a buffer that a routine gets at one point: along each axis an index, or all
    (None)."""

    buffer: Buffer
    at: tuple[Dim | None, ...]


@attrs.frozen(eq=False)
class PointCalls:
    """A function called once at each point of some axes.

    An argument is a view of a buffer, or a number. An operand is an array over the axes that it
    covers completely, or a scalar if there are none; a result is an array to be filled, of one
    element if there are none.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]  # a BufferPoint, a Dim, a number, or a tuple of these
    extents: Mapping[Sym, Dim]  # of the axes
    results: frozenset[Buffer]


@attrs.frozen
class Named:
    """The names that a routine's parameters may have: operands, results, other numbers."""

    operands: Mapping[str, BufferPoint | None]
    results: Mapping[str, BufferPoint]
    numbers: Mapping[str, Any]
    axes: Mapping[str, Dim]  # of the points: the index along each axis

    def argument(self, name: str) -> Any:
        """Returns the argument for a parameter of this name."""
        if name in self.operands:
            return self.operands[name]
        if name in self.results:
            return self.results[name]
        return self.axes[name] if name in self.axes else _number(self.numbers.get(name))


def _number(value: Any) -> Any:
    parts = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(part, (*HELD, Poly)) for part in parts):
        raise NoKernelError(f"a kernel cannot be told {value!r}")
    return value


def whole_axis_stages(
    function: Callable[..., Any],
    spec: IndexSpec,
    operands: Sequence[Buffer],
    numbers: Mapping[str, Any],
    origin: str,
) -> tuple[list[Buffer], list[Stage]]:
    """Returns the results of a spec whose values a function computes, and the stages that compute
    them.

    If elements are stored in another dtype than that of the computation, the function gets copies.
    """
    if len(spec.statements) != 1 or spec.statements[0].reduce or spec.statements[0].conditions:
        raise NoKernelError("the line does not say at which points a routine is called")
    (clause,) = spec.statements
    results = [Buffer(r.dims, _known(r.dtype)) for r in spec.results]
    seen = {b: _computed(b) for b in (*operands, *results)}
    before = [_copy(b, seen[b]) for b in dict.fromkeys(operands) if seen[b] is not b]
    after = [_copy(seen[b], b) for b in results if seen[b] is not b]
    reads = {r.name: _place(seen[operands[r.operand]], r.entries, clause) for r in clause.reads}
    writes = {
        spec.results[w.result].name: _place(seen[results[w.result]], w.entries, clause)
        for w in clause.writes
    }
    named = Named(reads, writes, numbers, {x.name: axis_dim(x) for x in clause.parallel})
    parameters = inspect.signature(function).parameters
    arguments = tuple([named.argument(name) for name in parameters])
    calls = PointCalls(
        function,
        arguments,
        {x: spec.extents[x] for x in clause.parallel},
        frozenset([place.buffer for place in writes.values()]),
    )
    outs = [seen[b] for b in results]
    made = routine_stages(
        [place.buffer for place in reads.values()], outs, PointText(calls).routine(), origin
    )
    return results, [*before, *made, *after]


def _known(dtype: str | None) -> str:
    if dtype is None:
        raise NoKernelError("the dtype is only known at run time")
    return dtype


def _computed(buffer: Buffer) -> Buffer:
    """Returns the buffer, or one of the computation dtype of its elements."""
    dtype = computed_in(buffer.dtype)
    return buffer if dtype == buffer.dtype else Buffer(buffer.shape, dtype)


def _copy(source: Buffer, target: Buffer) -> Stage:
    axes = [dims.as_sym(dims.sym(f"x{i}")) for i in range(len(source.shape))]
    known = [a for a in axes if a is not None]
    at = tuple([axis_dim(a) for a in known])
    extents = dict(zip(known, source.shape, strict=True))
    return Stage(target, tuple(known), (), extents, load(source, at), at)


def _place(buffer: Buffer, entries: Iterable[AccessIndex], clause: Statement) -> BufferPoint:
    found: list[Dim | None] = []
    for entry in entries:
        if entry.data is not None or not entry.inside:
            raise NoKernelError("an index is read from data, or may leave its axis")
        letter = dims.as_sym(entry.dim)
        whole = letter in clause.whole
        if not whole and dims.syms(entry.dim) & frozenset(clause.whole):
            raise NoKernelError("an axis is seen whole in part")
        found.append(None if whole else entry.dim)
    return BufferPoint(buffer, tuple(found))


class PointText:
    """Writes the source of such calls."""

    def __init__(self, calls: PointCalls) -> None:
        self.calls = calls
        self.fills_elements = any(map(self._is_element, calls.arguments))
        self.axes = {axis: f"i{k}" for k, axis in enumerate(calls.extents)}
        self.pointers: dict[Buffer, str] = {}
        self.sizes: dict[Dim, str] = {}
        self.arrays: dict[tuple[Buffer, bool], str] = {}

    def routine(self) -> Routine:
        """Returns the lines, with the function under its name."""
        call = f"routine({', '.join([self._argument(a) for a in self.calls.arguments])})"
        lines = [*self._position(), call]
        before = self._arrays()
        return Routine(
            tuple(lines),
            tuple(self.pointers),
            (),
            tuple(self.sizes),
            range=prod(self.calls.extents.values()),
            function=self.calls.function,
            source=tuple(routine_source(self.calls.function).split("\n")),
            before=tuple(before),
        )

    def _is_element(self, argument: Any) -> bool:
        """Whether an argument is one element of a result."""
        is_result = isinstance(argument, BufferPoint) and argument.buffer in self.calls.results
        return is_result and all(index is not None for index in argument.at)

    def _argument(self, argument: Any) -> str:
        if isinstance(argument, BufferPoint):
            return self._seen(argument)
        if isinstance(argument, tuple):
            return f"({''.join([f'{self._argument(part)}, ' for part in argument])})"
        if isinstance(argument, Poly):
            own = dims.syms(argument) & self.axes.keys()
            return self._index(argument) if own else self._size(argument)
        return repr(argument) if not isinstance(argument, float) else f"float64({argument!r})"

    def _seen(self, place: BufferPoint) -> str:
        scalar = self._is_element(place)
        at = [":" if i is None else self._index(i) for i in place.at] + [":"] * scalar
        key = place.buffer, scalar
        name = self.arrays.setdefault(key, f"x{len(self.arrays)}")
        return f"{name}[{', '.join(at) or '0'}]"

    def _arrays(self) -> list[str]:
        """Gives operands and results without axes an axis of size 1."""
        lines = []
        for (buffer, scalar), name in self.arrays.items():
            sizes = [*[self._size(d) for d in buffer.shape], *["1"] * (scalar or not buffer.shape)]
            pointer = self.pointers.setdefault(buffer.root, f"p{len(self.pointers)}")
            lines.append(f"{name} = array_at({pointer}, ({', '.join(sizes)},))")
        return lines

    def _position(self) -> list[str]:
        """Splits the linear index of the point into positions along the axes."""
        lines, rest = [], "point"
        for axis, name in list(self.axes.items())[::-1]:
            if name == "i0" and not self.fills_elements:
                lines.append(f"i0 = {rest}")  # the outermost axis needs no division
                break
            size = self._size(self.calls.extents[axis])
            lines.append(f"{name} = {rest} % {size}")
            lines.append(f"{name}_rest = {rest} // {size}")
            rest = f"{name}_rest"
        return lines

    def _size(self, size: Dim) -> str:
        """Returns the name of a size. Static ones are arguments too, so that all shapes of a rank
        share the machine code. They are constants where a call fills one element: it takes no
        longer than the divisions that find its position, which are faster by constants."""
        if isinstance(size, int) and self.fills_elements:
            return str(size)
        return self.sizes.setdefault(size, f"n{len(self.sizes)}")

    def _index(self, index: Dim) -> str:
        def name_of(symbol: Sym) -> str:
            return self.axes.get(symbol) or self._size(axis_dim(symbol))

        return f"({dims.python_text(index, name_of)})"

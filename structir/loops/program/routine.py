"""Routines: a function of Python over arrays, called once at each point of some axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import attrs

from structir.errors import Diagnostic
from structir.ir import dims
from structir.ir.dims import Dim, Poly, Sym
from structir.loops.program.buffer import Buffer
from structir.system.locks import cached_property


@attrs.frozen
class BufferPoint:
    """The view of a buffer that a routine gets at one point: along each axis an index, or all
    (None)."""

    buffer: Buffer
    at: tuple[Dim | None, ...]


@attrs.frozen(eq=False, slots=False)
class Routine:
    """A function called once at each point of some axes. The first stage runs it; that of each
    further result only marks it as computed.

    An argument is a view of a buffer, or a number. An operand is an array over the axes that it
    covers completely, or a scalar if there are none; a result is an array to be filled, of one
    element if there are none.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]  # a BufferPoint, a Dim, a number, or a tuple of these
    extents: Mapping[Sym, Dim]  # of the axes
    results: frozenset[Buffer]
    rejects: bool = False  # whether the function raises an error for some operands
    rejection: Diagnostic | None = None  # of the op, for these operands
    runs: bool = True

    @property
    def range(self) -> Dim:
        """The number of points."""
        return prod(self.extents.values())

    @cached_property
    def buffers(self) -> tuple[Buffer, ...]:
        """The memory of the operands and results."""
        points = [value for value in self._values() if isinstance(value, BufferPoint)]
        return tuple(dict.fromkeys([point.buffer.root for point in points]))

    @cached_property
    def sizes(self) -> tuple[Dim, ...]:
        """The sizes that are arguments of its kernel. Static ones are, too, so that all shapes of a
        rank share the machine code. They are constants where a call fills one element: it takes no
        longer than the divisions that find its position, which are faster by constants."""
        is_constant = any([self.is_element(a) for a in self.arguments])
        sizes = [s for s in self._sizes() if not (is_constant and isinstance(s, int))]
        return tuple(dict.fromkeys(sizes))

    def is_element(self, argument: Any) -> bool:
        """Whether an argument is one element of a result."""
        is_result = isinstance(argument, BufferPoint) and argument.buffer in self.results
        return is_result and None not in argument.at

    def has_axes(self, value: Dim) -> bool:
        """Whether a value depends on the point."""
        return not dims.syms(value).isdisjoint(self.extents)

    def _values(self) -> Iterator[Any]:
        for argument in self.arguments:
            yield from argument if isinstance(argument, tuple) else (argument,)

    def _sizes(self) -> Iterator[Dim]:
        for value in self._values():
            indices: tuple[Dim | None, ...] = (value,) if isinstance(value, Poly) else ()
            if isinstance(value, BufferPoint):
                yield from value.buffer.shape
                indices = value.at
            for index in [index for index in indices if isinstance(index, Poly)]:
                if self.has_axes(index):
                    yield from map(dims.as_dim, dims.syms(index) - self.extents.keys())
                else:
                    yield index
        yield from self.extents.values()

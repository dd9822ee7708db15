"""Elements over a loop space: tensors with one axis for each index variable that they depend on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import attrs

from structir.export.stablehlo.block import INDEX, HloBlock
from structir.export.stablehlo.tensors import HloTensor, integers
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.polynomial import Opaque
from structir.projections.values import SETTLED, WEAK_INT

COMPARISONS = {"lt": "LT", "le": "LE", "gt": "GT", "ge": "GE", "eq": "EQ", "ne": "NE"}


@attrs.frozen(eq=False)
class HloElement:
    """A value at each point: a tensor over some index variables in any order, or a literal.

    `kind` is its dtype, or a weak dtype of `projections.values`.
    """

    tensor: HloTensor | None
    axes: tuple[Sym, ...]
    kind: str
    literal: Any = None


class LoopGrid:
    """Computes elements over a loop space with ordered index variables."""

    def __init__(
        self, block: HloBlock, order: Sequence[Sym] = (), extents: Mapping[Sym, Dim] | None = None
    ) -> None:
        self.block, self.order = block, tuple(order)
        self.extents = extents or {}

    # ---- broadcasting

    def shape(self, axes: Sequence[Sym]) -> tuple[Dim, ...]:
        """Returns the extents of index variables."""
        return tuple([self.extents[axis] for axis in axes])

    def union(self, elements: Sequence[HloElement]) -> tuple[Sym, ...]:
        """Returns the index variables that any of the elements depends on.

        Their order is that of an element with all of them, else that of the grid.
        """
        present = {axis for element in elements for axis in element.axes}
        full = (element.axes for element in elements if len(element.axes) == len(present))
        return next(full, tuple([axis for axis in self.order if axis in present]))

    def tensor(self, element: HloElement, dtype: str) -> HloTensor:
        """Returns the tensor of an element in a dtype."""
        if element.tensor is None:
            return self.block.number(as_number(element.literal, dtype), dtype)
        if dtype == "bool" and element.tensor.dtype != "bool":
            return self._nonzero(element.tensor)
        return self.block.convert(element.tensor, dtype)

    def _nonzero(self, x: HloTensor) -> HloTensor:
        return self.block.compare("NE", x, self.filled(0, x.dtype, x.dims))

    def spread(self, element: HloElement, axes: Sequence[Sym], dtype: str) -> HloTensor:
        """Returns an element in a dtype as a tensor over these index variables."""
        if element.tensor is None:
            return self.filled(element.literal, dtype, self.shape(axes))
        value = self.tensor(element, dtype)
        if element.axes == tuple(axes):
            return value
        present = [axis for axis in axes if axis in element.axes]
        value = self.block.transpose(value, [element.axes.index(axis) for axis in present])
        return self.broadcast(value, [tuple(axes).index(a) for a in present], self.shape(axes))

    def filled(self, value: Any, dtype: str, shape: Sequence[Dim]) -> HloTensor:
        """Returns a tensor of one number."""
        value = as_number(value, dtype)
        if all(isinstance(d, int) for d in shape):
            return self.block.number(value, dtype, shape)
        return self.broadcast(self.block.number(value, dtype), (), shape)

    def broadcast(self, x: HloTensor, axes: Sequence[int], shape: Sequence[Dim]) -> HloTensor:
        """Returns a tensor broadcast to a shape; its axes become these axes of the result."""
        if tuple(shape) == x.dims and list(axes) == list(range(x.rank)):
            return x
        attributes = {"broadcast_dimensions": integers(axes)}
        if all(isinstance(d, int) for d in shape):
            return self.block.emit("broadcast_in_dim", [x], shape, x.dtype, attributes)
        operands = [x, self.sizes(shape)]
        return self.block.emit("dynamic_broadcast_in_dim", operands, shape, x.dtype, attributes)

    # ---- sizes and indices

    def sizes(self, shape: Sequence[Dim]) -> HloTensor:
        """Returns sizes as a vector."""
        return self.block.vector([self.size(d) for d in shape])

    def size(self, dim: Dim) -> HloTensor:
        """Returns a size as a scalar. Raises HloUnboundSize where no value has it."""
        if isinstance(dim, int):
            return self.block.number(dim, INDEX)
        return self.tensor(LoopGrid(self.block).index(dim), INDEX)

    def reshape(self, x: HloTensor, shape: Sequence[Dim]) -> HloTensor:
        """Returns a tensor of another shape."""
        static = all(isinstance(d, int) for d in shape)
        same = tuple(shape) == x.dims
        return self.block.reshape(x, shape, None if static or same else self.sizes(shape))

    def counter(self, axis: Sym) -> HloElement:
        """Returns the value of an index variable."""
        extent = self.extents[axis]
        static = isinstance(extent, int)
        op, operands = ("iota", []) if static else ("dynamic_iota", [self.sizes((extent,))])
        tensor = self.block.emit(op, operands, (extent,), INDEX, {"iota_dimension": "0 : i64"})
        return HloElement(tensor, (axis,), WEAK_INT)

    def index(self, dim: Dim) -> HloElement:
        """Returns the value of an expression over index variables and sizes."""
        if isinstance(dim, int):
            return HloElement(None, (), WEAK_INT, dim)
        if not self.extents.keys() & dims.syms(dim) and self.order:
            return HloElement(self.size(dim), (), WEAK_INT)
        terms = [self._term(monomial, c) for monomial, c in dim.terms.items()]
        if dim.constant or not terms:
            terms.append(HloElement(None, (), WEAK_INT, dim.constant))
        return reduce(lambda a, b: self.binary("add", a, b), terms)

    def _term(self, monomial: Sequence[Any], coefficient: int) -> HloElement:
        factors = [self._atom(atom) for atom in monomial]
        if coefficient != 1 or not factors:
            factors.append(HloElement(None, (), WEAK_INT, coefficient))
        return reduce(lambda a, b: self.binary("multiply", a, b), factors)

    def _atom(self, atom: Any) -> HloElement:
        if isinstance(atom, Opaque):
            args = [self.index(argument) for argument in atom.args]
            return ATOMS[atom.fn](self, *args)
        if atom in self.extents:
            return self.counter(atom)
        return HloElement(self.block.symbol(atom), (), WEAK_INT)

    # ---- operations

    def binary(self, op: str, a: HloElement, b: HloElement, dtype: str = INDEX) -> HloElement:
        """Returns an op on two elements in one dtype."""
        return self.apply(lambda x, y: self.block.same(op, x, y), [a, b], dtype)

    def apply(
        self,
        function: Callable[..., HloTensor],
        elements: Sequence[HloElement],
        dtype: str,
        kind: str | None = None,
    ) -> HloElement:
        """Returns a function of elements, in a dtype over the index variables of any of them."""
        axes = self.union(elements)
        values = [self.spread(element, axes, dtype) for element in elements]
        result = function(*values)
        return HloElement(result, axes, kind or result.dtype)

    def compare(self, fn: str, a: HloElement, b: HloElement, dtype: str = INDEX) -> HloElement:
        """Returns a comparison of two elements in a dtype: lt, le, gt, ge, eq or ne."""
        direction = COMPARISONS[fn]
        return self.apply(lambda x, y: self.block.compare(direction, x, y), [a, b], dtype)

    def select(self, condition: HloElement, a: HloElement, b: HloElement, dtype: str) -> HloElement:
        """Returns an element where a condition holds, else another."""
        axes = self.union([condition, a, b])
        chosen = self.spread(condition, axes, "bool")
        values = [self.spread(element, axes, dtype) for element in (a, b)]
        return HloElement(self.block.select(chosen, *values), axes, dtype)

    def both(self, a: HloElement | None, b: HloElement | None) -> HloElement | None:
        """Returns the conjunction of two masks; None is always true."""
        if a is None or b is None:
            return b if a is None else a
        return self.binary("and", a, b, "bool")


def as_number(value: Any, dtype: str) -> Any:
    """Returns a literal as a number of a dtype."""
    return bool(value) if dtype == "bool" else value


def dtype_of_kind(kind: str) -> str:
    """Returns the dtype in which values of a kind are computed."""
    return SETTLED.get(kind, kind)


def _folded(op: str) -> Callable[..., HloElement]:
    def fold(grid: LoopGrid, *args: HloElement) -> HloElement:
        return reduce(lambda a, b: grid.binary(op, a, b), args)

    return fold


def _floordiv(grid: LoopGrid, a: HloElement, b: HloElement) -> HloElement:
    quotient = grid.binary("divide", a, b)
    return grid.binary("subtract", quotient, _borrow(grid, a, b))


def _floormod(grid: LoopGrid, a: HloElement, b: HloElement) -> HloElement:
    borrowed = grid.binary("multiply", _borrow(grid, a, b), b)
    return grid.binary("add", grid.binary("remainder", a, b), borrowed)


def _borrow(grid: LoopGrid, a: HloElement, b: HloElement) -> HloElement:
    """Returns 1 where a division that truncates is above the floor, else 0."""
    zero = HloElement(None, (), WEAK_INT, 0)
    rest = grid.binary("remainder", a, b)
    opposite = grid.compare(
        "ne", grid.compare("lt", rest, zero), grid.compare("lt", b, zero), "bool"
    )
    inexact = grid.compare("ne", rest, zero)
    return grid.apply(lambda x: x, [grid.binary("and", opposite, inexact, "bool")], INDEX)


def _comparison(fn: str) -> Callable[..., HloElement]:
    return lambda grid, a, b: grid.compare(fn, a, b)


def _select(grid: LoopGrid, condition: HloElement, a: HloElement, b: HloElement) -> HloElement:
    return grid.select(condition, a, b, INDEX)


ATOMS: dict[str, Callable[..., HloElement]] = {
    "floordiv": _floordiv,
    "floormod": _floormod,
    "min": _folded("minimum"),
    "max": _folded("maximum"),
    "select": _select,
    **{fn: _comparison(fn) for fn in COMPARISONS},
}

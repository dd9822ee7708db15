"""The positions in an operand of the windows of XLA's gather and scatter."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from structir.frontend.jax.equation import Equation
from structir.frontend.jax.ops.shapes import sliced
from structir.frontend.scalars import dims_of, index_range, number, reshape_to, size_number
from structir.ir.dims import Dim
from structir.ir.expr import Expr
from structir.script import R


class Positions:
    """The element of the operand that each element of the windows is, by axis.

    `window` are the sizes of a window by operand axis, `mapped` the operand axes that the indices
    start, and `batching` the operand axes that batch axes of the indices select. With `is_marked`,
    the windows that are not inside the operand are known.
    """

    def __init__(
        self,
        equation: Equation,
        window: Sequence[Dim],
        mapped: Sequence[int],
        batching: Sequence[int],
        index_batching: Sequence[int],
        is_marked: bool,
    ) -> None:
        self.equation, self.sizes = equation, dims_of(equation.args[0])
        self.indices, self.window, self.mapped = equation.args[1], window, list(mapped)
        self.batching, self.index_batching = list(batching), list(index_batching)
        self.batch = dims_of(self.indices)[:-1]
        self.is_marked = is_marked
        self._inside: list[Expr] = []  # by mapped axis: whether the window is in the operand

    def start(self, axis: int) -> Expr | None:
        """Returns the start of each window along an axis, over the batch axes; None if it is 0.

        A window that is not inside the operand is moved there.
        """
        equation = self.equation
        if axis in self.batching:
            place = self.index_batching[self.batching.index(axis)]
            size = self.batch[place]
            aligned = [size if k == place else 1 for k in range(len(self.batch))]
            return reshape_to(index_range(size), aligned)
        if axis not in self.mapped:
            return None
        column = self.mapped.index(axis)
        part = sliced(self.indices, [len(self.batch)], [column], [column + 1])
        start = equation.emit(R.astype(reshape_to(part, self.batch), "int64"))
        last = size_number(self.sizes[axis] - self.window[axis], "int64")
        zero = number(0, "int64")
        if self.is_marked:
            inside = R.logical_and(R.greater_equal(start, zero), R.less_equal(start, last))
            self._inside.append(equation.emit(inside))
        return equation.emit(R.maximum(R.minimum(start, last), zero))

    def along(self, axis: int, start: Expr | None, place: int | None, count: int) -> Expr:
        """Returns the positions along an axis, over the batch axes and the `count` window axes.

        `place` is the number of the window axis of this operand axis, if it has one. Axes along
        which the positions do not change have size 1.
        """
        ones: list[Dim] = [1] * count
        base = number(0, "int64") if start is None else start
        batch = [1] * len(self.batch) if start is None else self._aligned(base)
        result = reshape_to(base, [*batch, *ones])
        if place is None:
            return result
        aligned = [self.window[axis] if k == place else 1 for k in range(count)]
        offsets = reshape_to(index_range(self.window[axis]), [*[1] * len(batch), *aligned])
        return R.add(result, offsets)

    def _aligned(self, start: Expr) -> Sequence[Dim]:
        sizes = dims_of(start)
        return sizes if len(sizes) == len(self.batch) else self.batch

    def inside(self, count: int) -> Expr | None:
        """Returns whether each window is inside the operand, with `count` window axes of size 1;
        None if all are."""
        if not self._inside:
            return None
        mask = reduce(R.logical_and, self._inside)
        return reshape_to(mask, [*self.batch, *[1] * count])

"""Which indices of a kernel are surely in range: found out once, for all sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Var
from structir.ir.kernel import (
    Apply,
    Assign,
    Extent,
    For,
    Kernel,
    Literal,
    Local,
    Part,
    Scalar,
    Size,
    nodes_of,
)

ARITHMETIC: dict[str, Callable[[Dim, Dim], Dim]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
}


class IndexRanges:
    """What integers of a kernel are, as sizes and counted variables, at a place of its text."""

    def __init__(self, kernel: Kernel, shapes: Mapping[Var, tuple[Dim, ...]]) -> None:
        self.shapes = dict(shapes)
        assigned = Counter(n.target for n in nodes_of(kernel) if isinstance(n, Assign))
        self.once = {target for target, count in assigned.items() if count == 1}
        self.values: dict[Local, Dim] = {}
        self.counted: list[tuple[Sym, Dim, Dim]] = []  # least and greatest values, outermost first

    def value(self, scalar: Scalar) -> Dim | None:
        """An integer in terms of sizes and counted variables; None where it is not known."""
        match scalar:
            case Literal(value, "int64"):
                return int(value)
            case Size(dim):
                return dim
            case Extent(array, axis):
                return self.shapes[array][axis]
            case Local():
                return self.values.get(scalar)
            case Apply(fn, (left, right), "int64") if fn in ARITHMETIC:
                sides = self.value(left), self.value(right)
                return None if None in sides else ARITHMETIC[fn](*sides)  # type: ignore[arg-type]
        return None

    def parted(self, part: Part) -> None:
        """The ends of a part are two of the places from 0 to the extent."""
        for end in (part.low, part.high):
            symbol = dims.sym(end.name)
            self.values[end] = symbol
            self.counted.append((dims.as_sym(symbol), 0, part.extent))  # type: ignore[arg-type]

    def assigned(self, assign: Assign) -> None:
        """From here on a number that is assigned once has its value."""
        target: Any = assign.target
        if target in self.once and target.dtype == "int64" and not assign.symbol:
            value = self.value(assign.value)
            if value is not None:
                self.values[target] = value

    def enter(self, loop: For) -> bool:
        """Count the variable of a loop; whether its range is known."""
        start, stop = self.value(loop.start), self.value(loop.stop)
        self.values.pop(loop.variable, None)
        if start is None or stop is None:
            return False
        low, high = (start, stop - 1) if loop.step > 0 else (stop + 1, start)
        if not self._least(low, 0):
            return False
        variable = dims.sym(loop.variable.name)
        self.values[loop.variable] = variable
        self.counted.append((dims.as_sym(variable), low, high))  # type: ignore[arg-type]
        return True

    def leave(self, loop: For, known: bool) -> None:
        """The variable of a loop has no value after it."""
        self.values.pop(loop.variable, None)
        if known:
            self.counted.pop()

    def inside(self, index: Scalar, size: Dim) -> bool:
        """Whether an index is surely one of this size."""
        value = self.value(index)
        return value is not None and self._least(value, 0) and self._least(size - 1 - value, 0)

    def _least(self, value: Dim, least: int) -> bool:
        """Whether a value is at least this much wherever the variables stand."""
        for variable, low, high in reversed(self.counted):
            found = dims.linear(value, variable)
            if found is None:
                return False
            step, rest = found
            if dims.at_least(step, 0) is True:
                value = rest + step * low
            elif dims.at_least(0, step) is True:
                value = rest + step * high
            else:
                return False
        return dims.at_least(value, least) is True

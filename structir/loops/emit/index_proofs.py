"""Index range analysis: which indices of a kernel are proved to be in range, for all sizes.

Kernels compute in 64 bits that wrap around; polynomials of sizes do not. Sums, differences and
products agree modulo 2**64 in any case, so an index whose polynomial is in range is that of the
kernel. A quotient, a minimum or the end of a loop is known only where its operands are proved to be
64-bit integers. Sizes are such integers: the kernel gets each axis, the number of elements of each
array, and each integer argument as one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import prod
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
from structir.loops.program.buffer import element_bytes
from structir.loops.program.kernel_table import dtype_of

ARITHMETIC: dict[str, Callable[[Dim, Dim], Dim]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
}
Bounds = tuple[int, int]


def _product_bounds(a: Bounds, b: Bounds) -> Bounds:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


# The bounds of a function by those of its operands.
BOUNDS: dict[str, Callable[[Bounds, Bounds], Bounds]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _product_bounds,
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
}
LEAST, GREATEST = -(2**63), 2**63 - 1
MARGIN = 2**32  # the distance from sizes below 2**62 within which bounds are exact


Some = tuple[Dim, ...]


class IndexRanges:
    """The polynomials of a kernel's integers over sizes and loop variables, at one statement."""

    def __init__(self, kernel: Kernel, shapes: Mapping[Var, tuple[Dim, ...]]) -> None:
        self.shapes = dict(shapes)
        nodes = list(nodes_of(kernel))
        assigned = Counter(n.target for n in nodes if isinstance(n, Assign))
        assigned += Counter(n.variable for n in nodes if isinstance(n, For))
        self.once = {target for target, count in assigned.items() if count == 1}
        self.values: dict[Local, Dim] = {}
        # Variables with lower and upper bounds; of several bounds, any holds. Outermost first.
        self.counted: list[tuple[Sym, Some, Some]] = []
        self.registers: dict[str, Dim] = {}  # of a thread
        if kernel.blocks is not None:
            self._enter_threads(kernel.blocks.dim, kernel.threads)
        self.sizes = dict.fromkeys([n.extent for n in nodes if isinstance(n, Part)])
        self.sizes |= dict.fromkeys([n.dim for n in nodes if isinstance(n, Size)])
        self.small: dict[Dim, None] = {}  # sizes below 2**62
        params = set(kernel.params)
        for array, shape in self.shapes.items():
            whole = [prod(shape)] if array in params else []  # others may have no such sizes
            self.sizes |= dict.fromkeys([*shape, *whole])
            if whole and element_bytes(dtype_of(array)) > 1:  # so its size in bytes has 63 bits
                self.small |= dict.fromkeys([*shape, *whole])

    def _enter_threads(self, blocks: Dim, threads: int) -> None:
        """Adds the indices of threads and blocks."""
        self.registers = {"blocks": blocks, "threads": threads}
        for name, count in (("block", blocks), ("thread", threads)):
            number = self.registers[name] = dims.sym(name)
            self.counted.append((dims.as_sym(number), (0,), (count - 1,)))  # type: ignore[arg-type]

    def value(self, scalar: Scalar) -> Dim | None:
        """Returns an integer in terms of sizes and loop variables, modulo 2**64; None if
        unknown."""
        match scalar:
            case Literal(value, "int64"):
                return int(value)
            case Size(dim):
                return dim
            case Extent(array, axis):
                return self.shapes[array][axis]
            case Local():
                return self.values.get(scalar)
            case Apply(fn, ()):
                return self.registers.get(fn)
            case Apply(fn, (left, right), "int64") if fn in ARITHMETIC:
                sides = self.value(left), self.value(right)
                return None if None in sides else ARITHMETIC[fn](*sides)  # type: ignore[arg-type]
            case Apply("floordiv", (left, right), "int64"):
                over, under = self.exact(left), self.exact(right)
                if over is None or not isinstance(under, int) or under <= 0:
                    return None  # quotients by other numbers depend on their signs
                return dims.floordiv(over, under)
        return None

    def exact(self, scalar: Scalar) -> Dim | None:
        """Does the same, only if the integer is proved to have 64 bits."""
        value = self.value(scalar)
        return value if value is not None and self._fits(value) else None

    def _fits(self, value: Dim) -> bool:
        if isinstance(value, int):
            return LEAST <= value <= GREATEST
        if dims.as_sym(value) is not None or value in self.sizes:
            return True
        count = len(self.counted)
        low = self._least(value, LEAST, count) or any(
            self._least(value + size, 0, count) for size in self.sizes
        )
        limits = [GREATEST, *self.sizes, *[size + MARGIN for size in self.small]]
        return low and any(self._least(limit - value, 0, count) for limit in limits)

    def bounds(self, scalar: Scalar) -> tuple[int, int] | None:
        """Returns constants between which an integer is, if there are any."""
        value = self.value(scalar)
        if isinstance(value, int):
            return (value, value) if LEAST <= value <= GREATEST else None
        if isinstance(scalar, Local) and value is not None:
            return self._bounds_of(value)
        match scalar:
            case Apply(fn, (first, second), "int64") if fn in BOUNDS:
                left, right = self.bounds(first), self.bounds(second)
                if left is None or right is None:
                    return None
                low, high = BOUNDS[fn](left, right)
                return (low, high) if low >= LEAST and high <= GREATEST else None
        return None

    def _bounds_of(self, variable: Dim) -> tuple[int, int] | None:
        """Returns the constant bounds of a loop variable."""
        for symbol, lows, highs in self.counted:
            if dims.as_sym(variable) is symbol:
                ends = (
                    [e for e in lows if isinstance(e, int)],
                    [e for e in highs if isinstance(e, int)],
                )
                return (max(ends[0]), min(ends[1])) if all(ends) else None
        return None

    def parted(self, part: Part) -> None:
        """Adds the bounds of a part: two positions from 0 to the extent."""
        for end in (part.low, part.high):
            self._count(end, (0,), (part.extent,))

    def _count(self, local: Local, lows: Some, highs: Some) -> None:
        variable = dims.sym(local.name)
        self.values[local] = variable
        self.counted.append((dims.as_sym(variable), lows, highs))  # type: ignore[arg-type]

    def assigned(self, assign: Assign) -> None:
        """Adds the value of a number that is assigned once."""
        target: Any = assign.target
        if target not in self.once or target.dtype != "int64" or assign.symbol:
            return
        value = self.value(assign.value)
        if value is not None:
            self.values[target] = value
        elif isinstance(assign.value, Apply) and assign.value.fn == "min":
            sides = [self.exact(arg) for arg in assign.value.args]
            self._count(target, (), tuple([side for side in sides if side is not None]))

    def enter(self, loop: For) -> int:
        """Adds the variable of a loop, if its range is known; returns the previous number of
        variables."""
        before = len(self.counted)
        self.values.pop(loop.variable, None)
        if loop.step > 0:
            lows, stops = self._ends(loop.start, "max"), self._ends(loop.stop, "min")
            highs = tuple([stop - self._distance(loop, stop) for stop in stops])
        else:
            lows = tuple([stop + 1 for stop in self._ends(loop.stop, "max")])
            highs = self._ends(loop.start, "min")
        if highs and any(self._least(low, 0, before) for low in lows):
            self._count(loop.variable, lows, highs)
        return before

    def _ends(self, scalar: Scalar, fn: str) -> Some:
        """Returns the bounds of a loop's end: of `min(a, b)`, both that are known."""
        if isinstance(scalar, Apply) and scalar.fn == fn:
            return tuple([end for arg in scalar.args for end in self._ends(arg, fn)])
        value = self.exact(scalar)
        return () if value is None else (value,)

    def length(self, loop: For) -> int | None:
        """Returns the number of iterations of a loop of step 1, if it is a constant."""
        return self._difference(loop, loop.stop)

    def most(self, loop: For) -> int | None:
        """Returns the number of iterations of a loop of step 1 to `min(start + count, ...)` that is
        not cut off, if it is a constant."""
        stops = loop.stop.args if isinstance(loop.stop, Apply) and loop.stop.fn == "min" else ()
        lengths = [self._difference(loop, stop) for stop in stops]
        return next((length for length in lengths if length is not None), None)

    def _difference(self, loop: For, stop: Scalar) -> int | None:
        first, last = self.exact(loop.start), self.exact(stop)
        known = first is not None and last is not None and loop.step == 1
        length = last - first if known else None  # type: ignore[operator]
        return length if isinstance(length, int) else None

    def _distance(self, loop: For, stop: Dim) -> int:
        """Returns the distance from the last iteration to the stop: one step, if they match
        exactly."""
        start = self.exact(loop.start) if loop.step > 1 else None
        ends_there = start is not None and dims.equal(dims.floormod(stop - start, loop.step), 0)
        return loop.step if ends_there is True else 1

    def leave(self, loop: For, before: int) -> None:
        """Removes the variable of a loop, and everything added in it."""
        self.values.pop(loop.variable, None)
        gone = {variable for variable, _, _ in self.counted[before:]}
        del self.counted[before:]
        for local in [k for k, v in self.values.items() if dims.syms(v) & gone]:
            del self.values[local]

    def inside(self, index: Scalar, size: Dim) -> bool:
        """Whether an index is proved to be inside of this size."""
        value = self.value(index)
        if value is None:
            return False
        count = len(self.counted)
        return self._least(value, 0, count) and self._least(size - 1 - value, 0, count)

    def at_least(self, scalar: Scalar, least: int) -> bool:
        """Whether an integer is proved to be at least this."""
        if isinstance(scalar, Apply) and scalar.fn == "max":
            return any(self.at_least(arg, least) for arg in scalar.args)
        if isinstance(scalar, Apply) and scalar.fn == "floordiv" and least <= 0:
            over, under = scalar.args
            return self.at_least(over, 0) and self.at_least(under, 1)
        value = self.exact(scalar)
        return value is not None and self._least(value, least, len(self.counted))

    def region_inside(
        self, start: Scalar, axes: Sequence[tuple[Scalar, Scalar]], size: Dim
    ) -> bool:
        """Whether a region with axes (count, step) from an element on is proved to be within so
        many elements, if every count is at least 1."""
        first, count = self.value(start), len(self.counted)
        pairs = [(self.exact(extent), self.exact(step)) for extent, step in axes]
        last = first
        for extent, step in pairs:
            if last is None or extent is None or step is None or not self._least(step, 0, count):
                return False
            last += (extent - 1) * step
        if first is None or last is None:
            return False
        return self._least(first, 0, count) and self._least(size - 1 - last, 0, count)

    def _least(self, value: Dim, least: int, count: int) -> bool:
        """Whether a value has a lower bound for all values of the first variables."""
        for place in range(count - 1, -1, -1):
            variable, lows, highs = self.counted[place]
            linear = dims.linear(value, variable)
            if linear is None:
                return False
            step, rest = linear
            if step == 0:
                continue
            up, down = dims.at_least(step, 0) is True, dims.at_least(0, step) is True
            ends = lows if up else highs if down else ()
            return any(self._least(rest + step * end, least, place) for end in ends)
        return dims.at_least(value, least) is True

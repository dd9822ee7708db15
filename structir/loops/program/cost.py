"""Cost model: the estimated time of a kernel on one thread, as a size.

A loop costs its trip count times its body at its first iteration. The constants are rounded
measurements on one core with AVX-512 at 3 to 4 GHz, data in L2. They only decide whether threads
share a kernel, where an error by a factor of two is harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

import attrs

from structir.errors import StructIRError
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.kernel import (
    Apply,
    Argument,
    Assign,
    Branch,
    Element,
    Extent,
    For,
    Kernel,
    KernelStatement,
    LibraryCall,
    Literal,
    Local,
    Part,
    Scalar,
    Size,
    While,
    nodes_of,
)
from structir.ir.kernel_functions import LIBRARY, SCALAR_FUNCTIONS
from structir.ir.node import Node
from structir.ir.scalar_functions import declared
from structir.loops.program.kernel_table import table_of

# In picoseconds:
STATEMENT = 300  # of an operation of a scalar statement
LANE = 20  # per element of an operation in a vectorized innermost loop,
STRIDED = 200  # and in one whose elements are apart in memory
TERM = 20  # per multiply-add of a matrix product,
WINDOW_TERM = 35  # and of a sum over windows
MOVED = 150  # per element that a library function packs or transposes
CALLED = 3000  # of a math function: 200 per element of a vectorized loop
MIN_ROWS = 4  # products with fewer rows are bound by reading the right operand
ROUNDS = 8  # assumed iterations of a loop with unknown trip count

MOVES = frozenset({"pack_panels", "transpose"})
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
OPERATORS: dict[str, Callable[..., Dim]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "floordiv": lambda x, y: dims.floordiv(x, dims.dim_max(y, 1)),
    "mod": lambda x, y: dims.floormod(x, dims.dim_max(y, 1)),
    "neg": lambda x: -x,
    "min": dims.dim_min,
    "max": dims.dim_max,
    **{fn: partial(dims.compare, fn) for fn in COMPARISONS},
}
UNCOUNTED = frozenset({"and", "or", "not", "neg", "bitnot"})


@attrs.frozen(eq=False)
class KernelWork:
    """The estimated work of a kernel over its whole range.

    `rows` are those of a matrix product in one iteration, if the range splits them: each part then
    reads the right operand. They are 0 for other kernels.
    """

    picoseconds: Dim
    rows: Dim


NO_WORK = KernelWork(0, 0)
LENGTH = Sym("length")  # the iterations of the kernel
UNKNOWN = Sym("unknown")  # the iterations of an outermost loop with unknown trip count


def estimate_of(*args: Any) -> Callable[[], KernelWork]:
    """Returns a function that computes the work of a kernel once, at its first call; takes the
    arguments of `work_of`."""
    return cache(partial(work_of, *args))


def work_of(
    kernel: Kernel, values: Mapping[Sym, Dim], sizes: Sequence[Dim], length: Dim
) -> KernelWork:
    """Returns the work of a kernel over a range of a `length`: `values` of its symbols, and the
    `sizes` that it reads. Work whose formula is too long counts as none."""
    # an outer loop with an unknown trip count is over one of the rows of the largest axis
    try:
        work = _own_work(kernel)
        unknown: Dim = ROUNDS
        if UNKNOWN in dims.syms(work.picoseconds):
            rows = dims.floordiv(dims.dim_max(0, *sizes), dims.dim_max(length, 1))
            unknown = dims.dim_max(ROUNDS, rows)
        known = {**values, LENGTH: length, UNKNOWN: unknown}
        return KernelWork(*[dims.substitute(d, known) for d in (work.picoseconds, work.rows)])
    except StructIRError:
        return NO_WORK


def _own_work(kernel: Kernel) -> KernelWork:
    """Returns the work of a kernel over its own symbols; it is memoized."""
    memo: dict[str, KernelWork] = kernel.__dict__
    if "_work" not in memo:
        estimate = _Estimate(kernel)
        time = estimate.block(kernel.body)
        rows = estimate.rows
        of_one = dims.substitute(rows, {LENGTH: 1})
        split = dims.select(dims.compare("<", of_one, rows), of_one, 0)
        memo["_work"] = KernelWork(time, split)
    return memo["_work"]


class _Estimate:
    """Estimates one kernel, with the values of the integers known so far."""

    def __init__(self, kernel: Kernel) -> None:
        self.numbers = table_of(kernel).numbers
        self.rows: Dim = 0  # of the largest product
        self.rounds = dims.as_dim(UNKNOWN)
        self.known: dict[Local, Dim] = {}

    def block(self, statements: Iterable[KernelStatement]) -> Dim:
        """Returns the time of statements in sequence."""
        total: Dim = 0
        for statement in statements:
            total = total + STATEMENTS.get(type(statement), _Estimate.plain)(self, statement)
        return total

    def plain(self, statement: KernelStatement) -> Dim:
        """Returns the time of a statement without statements inside."""
        return STATEMENT * max(operations(statement), 1) + CALLED * _math_calls(statement)

    def assign(self, assign: Assign) -> Dim:
        """Returns the time of an assignment, and records an integer that it assigns."""
        if isinstance(assign.target, Local) and not assign.symbol:
            self._set(assign.target, self.integer(assign.value))
        return self.plain(assign)

    def part(self, part: Part) -> Dim:
        """Records the range of the kernel."""
        self.known |= {part.low: 0, part.high: dims.as_dim(LENGTH)}
        return STATEMENT

    def branch(self, branch: Branch) -> Dim:
        """Returns the time of the longer side."""
        return dims.dim_max(self.block(branch.then), self.block(branch.otherwise)) + STATEMENT

    def repeat(self, loop: While) -> Dim:
        """Returns the time of one iteration: of a loop over blocks, the first block counts as the
        whole range."""
        return self.block(loop.body)

    def loop(self, loop: For) -> Dim:
        """Returns the time of all iterations, as long as the first one: its blocks are whole."""
        low, high, unknown = self.integer(loop.start), self.integer(loop.stop), self.rounds
        if low is not None and high is not None:
            rounds = dims.dim_max(0, dims.ceildiv(high - low, loop.step))
            self._set(loop.variable, low)
        else:
            rounds = dims.dim_max(dims.floordiv(unknown, max(loop.step, 1)), 1)
            self._set(loop.variable, None)
            self.rounds = ROUNDS
        each = self.block(loop.body)
        self.rounds = unknown
        inside = [node for statement in loop.body for node in nodes_of(statement)]
        if not any([isinstance(n, For | While | LibraryCall) for n in inside]):
            is_strided = any([_is_strided(node, loop.variable) for node in inside])
            each = dims.floordiv(each * (STRIDED if is_strided else LANE), STATEMENT)
        return rounds * each

    def library_call(self, call: LibraryCall) -> Dim:
        """Returns the time of a library function: of products, of moves, or of sums of windows."""
        integers = LIBRARY[call.fn].integers
        arguments = call.args[len(call.args) - len(integers) :]
        numbers = dict(zip(integers, map(self.integer, arguments), strict=True))
        if call.fn in MOVES:
            axes = [count for count, _ in LIBRARY[call.fn].regions["source"]]
            return self.plain(call) + MOVED * _product(numbers, axes)
        if "window_rows" in numbers:
            sizes = ("rows", "columns", "window_rows", "window_columns")
            return self.plain(call) + WINDOW_TERM * _product(numbers, sizes)
        rows = numbers["rows"]
        self.rows = dims.dim_max(self.rows, 0 if rows is None else rows)
        least = ROUNDS if rows is None else dims.dim_max(rows, MIN_ROWS)
        return self.plain(call) + TERM * least * _product(numbers, ("columns", "terms"))

    def _set(self, local: Local, number: Dim | None) -> None:
        self.known.pop(local, None)
        if number is not None:
            self.known[local] = number

    def integer(self, scalar: Scalar) -> Dim | None:
        """Returns the value of an expression; None if it is not known."""
        match scalar:
            case Literal(value=int(value)):
                return value
            case Local():
                return self.known.get(scalar)
            case Size(dim):
                return dim
            case Argument(var) if var in self.numbers:
                return dims.as_dim(self.numbers[var])
            case Apply("select", (test, then, otherwise)):
                return self._selected(*map(self.integer, (test, then, otherwise)))
            case Apply(fn, args) if fn in OPERATORS:
                numbers = [self.integer(a) for a in args]
                return None if None in numbers else OPERATORS[fn](*numbers)
        return None

    @staticmethod
    def _selected(test: Dim | None, then: Dim | None, otherwise: Dim | None) -> Dim | None:
        if then is None or test == 0:
            return otherwise
        return then if test is None or otherwise is None else dims.select(test, then, otherwise)


STATEMENTS: dict[type, Callable[[_Estimate, Any], Dim]] = {
    Assign: _Estimate.assign,
    Part: _Estimate.part,
    Branch: _Estimate.branch,
    While: _Estimate.repeat,
    For: _Estimate.loop,
    LibraryCall: _Estimate.library_call,
}


def _product(numbers: Mapping[str, Dim | None], names: Iterable[str]) -> Dim:
    total: Dim = 1
    for name in names:
        number = numbers[name]
        total = total * (ROUNDS if number is None else number)
    return total


def operations(statement: KernelStatement) -> int:
    """Returns the number of different loads, stores and operations on elements in a statement,
    without those of indices."""
    match statement:
        case Assign(target, value, non_temporal=is_stream):
            scalars: tuple[Scalar, ...] = (target, value)
            others = int(is_stream)
        case LibraryCall(_, scalars):
            others = 1
        case _:
            return 0
    return len({_key(node) for scalar in scalars for node in _operations(scalar)}) + others


def _operations(scalar: Scalar) -> Iterator[Scalar]:
    match scalar:
        case Element() | Extent():
            yield scalar
        case Apply("cast", (Literal(),)):  # a number of a dtype
            return
        case Apply(fn, args):
            if fn not in UNCOUNTED:
                yield scalar
            for arg in args:
                yield from _operations(arg)


def _key(scalar: Scalar) -> Any:
    """Returns a key that equal expressions have."""
    match scalar:
        case Element(array, args) | Apply(array, args):
            return array, scalar.dtype, *map(_key, args)
        case Extent(array, axis):
            return array, axis
        case Literal(value):
            return repr(value)
        case Size(key) | Argument(key):
            return key
    return scalar


def _is_strided(node: Node, variable: Local) -> bool:
    """Whether an element is at a multiple of a loop variable."""
    return isinstance(node, Element) and any(
        [
            isinstance(n, Apply) and n.fn == "mul" and variable in nodes_of(n)
            for index in node.indices
            for n in nodes_of(index)
        ]
    )


def _math_calls(statement: KernelStatement) -> int:
    calls = [n.fn for n in nodes_of(statement) if isinstance(n, Apply)]
    return len([fn for fn in calls if fn in declared() and _is_math(fn)])


def _is_math(name: str) -> bool:
    is_operator = name in SCALAR_FUNCTIONS and SCALAR_FUNCTIONS[name].symbol
    return not is_operator and declared()[name].form("float32") is not None

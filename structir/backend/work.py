"""Cost model: the estimated time of a kernel on one thread, from its source and its sizes.

The source is evaluated abstractly with known integers: a loop costs its trip count times its body.
The constants are rounded measurements on one core with AVX-512 at 3 to 4 GHz, data in L2. They only
decide whether threads share a kernel, where an error by a factor of two is harmless.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from structir.ir.kernel_functions import LIBRARY as OF_KERNELS
from structir.ir.scalar_functions import declared

STATEMENT = 0.3  # ns of an operation of a scalar statement
LANE = 0.02  # ns per element of an operation in a vectorized innermost loop,
STRIDED = 0.2  # and in one whose elements are apart in memory
TERM = 0.02  # ns per multiply-add of a matrix product,
WINDOW_TERM = 0.035  # and of a sum over windows
MIN_ROWS = 4  # products with fewer rows are bound by reading the right operand
MOVED = 0.15  # ns per element that a library function packs or transposes
CALLED = 0.2  # ns per element of a vectorized math function
ROUNDS = 8  # assumed iterations of a loop with unknown trip count

PRODUCTS = frozenset(
    {
        "tiled_product",
        "packed_product",
        "column_product",
        "gathered_product",
        "pixel_product",
    }
)
MOVES = frozenset({"pack_panels", "transpose"})
WINDOWS = {"window_products": 3, "window_sums": 2, "window_maxima": 2, "window_minima": 2}
LIBRARY = MOVES | {*WINDOWS}
OPERATORS: dict[type[ast.AST], Callable[..., int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
}
COMPARISONS: dict[type[ast.AST], Callable[..., bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
SELECTIONS: dict[str, Callable[..., int]] = {"min": min, "max": max}


@lru_cache(maxsize=1024)
def parse_statements(text: str) -> Sequence[ast.stmt]:
    """Parses the statements of a kernel."""
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return functions[-1].body


@lru_cache(maxsize=1024)
def nanoseconds(
    text: str, pointers: int, sizes: tuple[int, ...], length: int, names: tuple[str, ...] = ()
) -> float:
    """Returns the estimated time of a kernel over its whole range, in ns.

    `names` are those of its sizes, if the source does not read them from a table. Estimates are
    memoized, since equal layers have equal kernels. Invalid source from a damaged file, which is
    never compiled, counts as no work.
    """
    try:
        return _Estimate(pointers, sizes, length, names).block(parse_statements(text))
    except (SyntaxError, LookupError, ValueError, ArithmeticError, RecursionError):
        return 0.0


@lru_cache(maxsize=1024)
def rows_of_products(
    text: str, pointers: int, sizes: tuple[int, ...], length: int, names: tuple[str, ...] = ()
) -> int:
    """Returns the rows of a matrix product in one iteration of a kernel, if its range splits them:
    each part then reads the right operand. Returns 0 for other kernels."""
    counts = []
    for iterations in (1, length):
        estimate = _Estimate(pointers, sizes, iterations, names)
        try:
            estimate.block(parse_statements(text))
        except (SyntaxError, LookupError, ValueError, ArithmeticError, RecursionError):
            return 0
        counts.append(estimate.rows)
    return counts[0] if counts[0] < counts[1] else 0


def _rows_of_product(name: str, args: Sequence[ast.expr]) -> Sequence[ast.expr]:
    """Returns the numbers of rows, columns and terms among the arguments of a product."""
    count = len(OF_KERNELS[name].regions)
    return args[count : count + 3]


class _Estimate:
    """Estimates one kernel, with the values of the integers known so far."""

    def __init__(
        self, pointers: int, sizes: Sequence[int], length: int, names: Sequence[str]
    ) -> None:
        self.pointers, self.sizes, self.length = pointers, sizes, length
        self.rows = 0  # of the largest product
        # an outer loop with an unknown trip count is over one of the rows of the largest axis
        self.rounds = max(ROUNDS, max(sizes, default=0) // max(length, 1))
        self.known: dict[str, int] = {
            "lo": 0,
            "hi": length,
            **dict(zip(names, sizes, strict=False)),
        }

    def block(self, statements: Sequence[ast.stmt]) -> float:
        """Returns the time of statements in sequence."""
        return sum(map(self.statement, statements))

    def statement(self, node: ast.stmt) -> float:
        """Returns the time of one statement, and records the integer that it assigns."""
        match node:
            case ast.For(target=ast.Name(id=name), iter=ast.Call(args=args)):
                return self._loop(name, args, node.body)
            case ast.If(body=body, orelse=orelse):
                return max(self.block(body), self.block(orelse)) + STATEMENT
            case ast.While(body=body):
                return self.block(body)  # over blocks: the first block counts as the whole range
            case ast.Assign(
                targets=[ast.Tuple([ast.Name(low), ast.Name(high)])],
                value=ast.Call(ast.Attribute(attr="part")),
            ):
                self.known |= {low: 0, high: self.length}
                return STATEMENT
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._assign(name, value)
                return STATEMENT * max(operations(value), 1) + self._calls(value)
            case _:
                return STATEMENT * max(operations(node), 1) + self._calls(node)

    def _loop(self, name: str, args: list[ast.expr], body: list[ast.stmt]) -> float:
        bounds = [self.integer(a) for a in args]
        low, high, step = (*([0] if len(bounds) == 1 else []), *bounds, 1)[:3]
        unknown = self.rounds
        if low is not None and high is not None and step:
            rounds = max(0, -(-(high - low) // step))
            self.known[name] = low  # the first iteration represents all: its blocks are whole
        else:
            rounds = max(unknown // max(step or 1, 1), 1)
            self.known.pop(name, None)
            self.rounds = ROUNDS
        each = self.block(body)
        self.rounds = unknown
        innermost = not any(isinstance(n, ast.For | ast.While) for b in body for n in ast.walk(b))
        if not (innermost and _is_light(body)):
            return rounds * each
        return rounds * each * (STRIDED if _is_strided(body, name) else LANE) / STATEMENT

    def _assign(self, name: str, value: ast.expr) -> None:
        number = self.integer(value)
        self.known.pop(name, None)
        if number is not None:
            self.known[name] = number

    def integer(self, node: ast.expr) -> int | None:
        """Returns the value of an expression; None if it is not known."""
        match node:
            case ast.Constant(value=int(value)):
                return value
            case ast.Name(id=name):
                return self.known.get(name)
            case ast.Subscript(value=ast.Name(id="a"), slice=ast.Constant(value=int(place))):
                index = place - self.pointers
                return self.sizes[index] if 0 <= index < len(self.sizes) else None
            case ast.BinOp(left=left, op=op, right=right):
                return self._applied(OPERATORS.get(type(op)), [left, right])
            case ast.UnaryOp(op=op, operand=operand):
                return self._applied(OPERATORS.get(type(op)), [operand])
            case ast.Call(func=ast.Name(id=name), args=args):
                return self._applied(SELECTIONS.get(name), args)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                holds = self.integer(test)
                number = None if holds == 0 else self.integer(body)
                return self.integer(orelse) if number is None else number
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._applied(COMPARISONS.get(type(op)), [left, right])
        return None

    def _applied(self, function: Any, args: list[ast.expr]) -> int | None:
        numbers = [self.integer(a) for a in args]
        if function is None or None in numbers:
            return None
        try:
            return int(function(*numbers))
        except ZeroDivisionError:
            return None

    def _calls(self, node: ast.AST) -> float:
        """Returns the time of the functions that a statement calls."""
        return sum(self._call(name, args) for name, args in _calls_in(node))

    def _call(self, name: str, args: list[ast.expr]) -> float:
        operands = args[0].elts if args and isinstance(args[0], ast.Tuple) else args
        if name in PRODUCTS:
            rows, *sizes = _rows_of_product(name, args)
            count = self.integer(rows)
            self.rows = max(self.rows, count or 0)
            return TERM * max(count or ROUNDS, MIN_ROWS) * self._product(sizes)
        if name in MOVES:
            return MOVED * self._product(operands[2:4])
        if name in WINDOWS:
            sizes = operands[WINDOWS[name] :][:2]
            return WINDOW_TERM * self._product([*sizes, *operands[-6:-4]])
        return CALLED * (STATEMENT / LANE) if _is_math(name) else 0.0

    def _product(self, nodes: Sequence[ast.expr]) -> float:
        total = 1.0
        for node in nodes:
            number = self.integer(node)
            total *= ROUNDS if number is None else number
        return total


def operations(node: ast.AST) -> int:
    """Returns the number of different loads, stores and operations on elements in a statement,
    without those of indices."""
    return len({ast.unparse(part) for part in _operations_in(node)})


def _operations_in(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Subscript():
            yield node
            return
        case ast.Call(args=[ast.Constant()]):
            return  # a number of a dtype
        case ast.BinOp() | ast.Compare() | ast.IfExp() | ast.Call():
            yield node
    for part in ast.iter_child_nodes(node):
        yield from _operations_in(part)


def _is_strided(body: Sequence[ast.stmt], variable: str) -> bool:
    """Whether a loop accesses elements at multiples of its variable."""
    subscripts = [n for b in body for n in ast.walk(b) if isinstance(n, ast.Subscript)]
    return any(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mult)
        and variable in _names_in(node)
        for subscript in subscripts
        for node in ast.walk(subscript.slice)
    )


def _names_in(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _is_math(name: str) -> bool:
    function = declared().get(name.rpartition("_float")[0] or name)
    return function is not None and function.form("float32") is not None


def _is_light(body: Sequence[ast.stmt]) -> bool:
    """Whether a loop is vectorized: it calls no library function."""
    names = [name for node in body for name, _ in _calls_in(node)]
    return not any(name in PRODUCTS or name in LIBRARY for name in names)


def _calls_in(node: ast.AST) -> list[tuple[str, list[ast.expr]]]:
    """Returns calls by name, such as `exp` or `T.exp`: function and arguments."""
    return [call for n in ast.walk(node) for call in _calls_in_expr(n)]


def _calls_in_expr(node: ast.AST) -> list[tuple[str, list[ast.expr]]]:
    """Returns a node that is a call by name, without calls inside of it."""
    calls = [node] if isinstance(node, ast.Call) else []
    named = [(getattr(n.func, "id", getattr(n.func, "attr", None)), n.args) for n in calls]
    return [(name, args) for name, args in named if name is not None]

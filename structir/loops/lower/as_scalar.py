"""Values and indices of stages as scalar expressions of kernels; common subexpressions are
named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Opaque, Poly, Sym, as_atom
from structir.ir.dtype import is_float
from structir.ir.expr import Var
from structir.ir.kernel import (
    Apply,
    Argument,
    Assign,
    KernelStatement,
    Literal,
    Local,
    Scalar,
    Size,
)
from structir.ir.kernel_functions import CONVERSIONS, ROUNDINGS, SCALAR_FUNCTIONS
from structir.ir.polynomial import of_terms
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import (
    Entry,
    Expression,
    Load,
    Number,
    Position,
    Total,
    parts_of,
    walk,
)
from structir.loops.program.expression import Operation as Applied

Values = dict[Expression, tuple[Scalar, int]]  # with the number of nested operations
LEAST = 16  # LLVM unrolls shorter loops, and smaller strides determine the layout of lanes
ACCUMULATE = "accumulate_"  # prefix of functions that add a term to a total
DEEPEST = 6  # nested operations, before a name is given
ON_TRUTH = {"add": "or", "mul": "and", "max": "or", "min": "and", "bitnot": "not", "xor": "ne"}
REASSOCIATED = {"add": "add_to", "mul": "multiply_to", "max": "maximum", "min": "minimum"}
# Functions of floats on integers and booleans: the operand, or a constant.
OF_WHOLE: dict[str, bool | None] = {
    **dict.fromkeys(ROUNDINGS),
    **{"isnan": False, "isinf": False, "isfinite": True},
}
OF_SIZES = {
    "floordiv": ("floordiv", "int64"),
    "floormod": ("mod", "int64"),
    "min": ("min", "int64"),
    "max": ("max", "int64"),
    "lt": ("lt", "bool"),
    "le": ("le", "bool"),
    "eq": ("eq", "bool"),
    "ne": ("ne", "bool"),
    "select": ("select", "int64"),
}


@attrs.frozen
class KernelParameters:
    """The parameters of a kernel that make it reusable by other groups: sizes of the program by
    symbols of the kernel, and numbers.

    `integers` has all integers from `LEAST` on: parameters by symbols, others by themselves.
    Smaller ones and divisors determine the code.
    """

    sizes: Mapping[Sym, Sym] = attrs.Factory(dict)
    integers: Mapping[int, Sym | int] = attrs.Factory(dict)
    numbers: Mapping[tuple[str, str], Var] = attrs.Factory(dict)  # by `repr` and dtype

    def shape(self, shape: Sequence[Dim]) -> tuple[Dim, ...]:
        """Returns the shape of an array in the kernel."""
        return tuple([self._dim(dim) for dim in shape])

    def _dim(self, dim: Dim) -> Dim:
        if not isinstance(dim, Poly):
            return self._integer(int(dim))
        symbols = {size: dims.as_dim(symbol) for size, symbol in self.sizes.items()}
        total = self._integer(dim.constant)
        for monomial, factor in dim.terms.items():
            term = dims.substitute(of_terms({monomial: 1}, 0), symbols)
            total = total + self._integer(factor) * term
        return total

    def _integer(self, value: int) -> Dim:
        size = self.integers.get(abs(value), abs(value))
        known = dims.as_dim(size) if isinstance(size, Sym) else size
        return known if value >= 0 else -known


NO_PARAMETERS = KernelParameters()


class NotShown(Exception):
    """A value that kernels cannot express, and the reason for each buffer."""

    def __init__(self, reason: str, reasons: Mapping[Buffer, str] | None = None) -> None:
        super().__init__(reason)
        self.reasons = reasons or {}


class Scalars:
    """Writes the values of one kernel; `read` returns the value of a load."""

    def __init__(
        self,
        read: Callable[[Load, list[KernelStatement]], Scalar],
        parameters: KernelParameters = NO_PARAMETERS,
    ) -> None:
        self.read, self.parameters = read, parameters
        self.axes: dict[Sym, Scalar] = {}  # the variables of the enclosing loops
        self.totals: dict[Any, Scalar] = {}
        self.symbols: dict[Sym, None] = {}  # of the program, used by the kernel
        self.count = 0
        self._functions = 0  # functions of sizes around the index being written

    def local(self, stem: str, dtype: str) -> Local:
        """Returns a new local name."""
        self.count += 1
        return Local(f"{stem}{self.count}", dtype)

    # ---- sizes

    def index(self, dim: Dim) -> Scalar:
        """Returns an integer expression over loops and sizes."""
        if not isinstance(dim, Poly):
            return self._integer(int(dim))
        total: Scalar | None = None
        for monomial, factor in dim.terms.items():
            term = reduce(self._product, [self._atom(atom) for atom in monomial])
            total = self._added(total, term, factor)
        assert total is not None
        return total if dim.constant == 0 else self._added(total, None, dim.constant)

    def _atom(self, atom: Sym | Opaque) -> Scalar:
        if isinstance(atom, Opaque):
            number = self._function(atom)
            return number if number.dtype == "int64" else Apply("cast", (number,), "int64")
        if atom in self.axes:
            return self.axes[atom]
        return self._size(self.parameters.sizes.get(atom, atom))

    def _size(self, symbol: Sym) -> Scalar:
        self.symbols[symbol] = None
        return Size(Poly({(symbol,): 1}, 0))

    def _integer(self, value: int) -> Scalar:
        """Returns an integer of a size or an index, or its parameter."""
        known = self.parameters.integers
        if abs(value) < LEAST or not known or self._functions:
            return Literal(value, "int64")
        size = known.get(abs(value))
        if size is None and any(isinstance(number, Sym) for number in known.values()):
            raise NotShown("an integer that kernels do not share")
        if size is None:
            return Literal(value, "int64")
        if isinstance(size, int):
            return Literal(value, "int64")
        return self._size(size) if value > 0 else Apply("neg", (self._size(size),), "int64")

    def _function(self, atom: Opaque) -> Scalar:
        """Returns a function of sizes; a comparison is a bool."""
        if atom.fn not in OF_SIZES:
            raise NotShown(atom.fn)
        fn, dtype = OF_SIZES[atom.fn]
        condition, others = ((), atom.args) if fn != "select" else (atom.args[:1], atom.args[1:])
        self._functions += 1
        args = [*map(self._test, condition), *map(self.index, others)]
        self._functions -= 1
        return Apply(fn, tuple(args), dtype)

    def _test(self, condition: Dim) -> Scalar:
        """Returns a condition as a bool."""
        atom = as_atom(condition)
        number = self._function(atom) if isinstance(atom, Opaque) else self.index(condition)
        if number.dtype == "bool":
            return number
        return Apply("ne", (number, Literal(0, "int64")), "bool")

    @staticmethod
    def _product(left: Scalar, right: Scalar) -> Scalar:
        return Apply("mul", (left, right), "int64")

    def _added(self, total: Scalar | None, term: Scalar | None, factor: int) -> Scalar:
        """Adds `factor * term`, or the factor alone, to a total."""
        size = abs(factor)
        if term is None:
            term = self._integer(size)
        elif size != 1:
            term = Apply("mul", (self._integer(size), term), "int64")
        if total is None:
            return term if factor > 0 else Apply("neg", (term,), "int64")
        return Apply("add" if factor > 0 else "sub", (total, term), "int64")

    def place(self, entry: Entry, steps: list[KernelStatement]) -> Scalar:
        """Returns an index, which may be loaded from data."""
        if isinstance(entry, Expression):
            return self._as_dtype(self.value(entry, steps), "int64")
        return self.index(entry)

    # ---- values

    def value(
        self,
        root: Expression,
        steps: list[KernelStatement],
        shared: Values | None = None,
        uses: Mapping[Expression, int] | None = None,
    ) -> Scalar:
        """Returns the value of an expression; names of its parts are bound in `steps`. If other
        expressions, whose values are `shared`, may have them, too, all parts are named; or those
        with several `uses`, if these are known for all expressions."""
        if uses is None and shared is None:
            uses = uses_in([root])
        scalars: Values = {} if shared is None else shared
        todo = [root]
        while todo:
            node = todo[-1]
            waiting = [p for p in parts_of(node) if p not in scalars]
            if waiting and not isinstance(node, Load):
                todo += waiting
                continue
            todo.pop()
            if node not in scalars:
                count = 2 if uses is None else uses.get(node, 0)
                scalars[node] = self._named(count, self._made(node, scalars, steps), steps)
        return scalars[root][0]

    def _made(
        self,
        node: Expression,
        values: Values,
        steps: list[KernelStatement],
    ) -> tuple[Scalar, int]:
        match node:
            case Number(value, dtype):
                number = self.parameters.numbers.get((repr(value), dtype))
                return literal(value, dtype) if number is None else Argument(number, dtype), 0
            case Position(dim, dtype):
                return self._as_dtype(self.index(dim), dtype), 1
            case Total(buffer):
                return self.totals[buffer], 0
            case Load():
                return self.read(node, steps), 1
            case Applied(fn, args, dtype):
                depth = max([values[a][1] for a in args]) + 1
                return applied(fn, [values[a][0] for a in args], dtype), depth
        raise NotShown(type(node).__name__)

    def _named(
        self, uses: int, found: tuple[Scalar, int], steps: list[KernelStatement]
    ) -> tuple[Scalar, int]:
        scalar, depth = found
        plain = isinstance(scalar, Local | Literal | Size)
        if plain or (depth <= DEEPEST and uses < 2):
            return found
        name = self.local("v", scalar.dtype)
        steps.append(Assign(name, stated(scalar)))
        return name, 0

    def _as_dtype(self, scalar: Scalar, dtype: str) -> Scalar:
        return scalar if scalar.dtype == dtype else applied("cast", [scalar], dtype)


def uses_in(roots: Sequence[Expression]) -> Counter[Expression]:
    """Returns how often each part of some expressions is an operand or one of the expressions."""
    nodes = dict.fromkeys(node for root in roots for node in walk(root))
    return Counter([*roots, *[part for node in nodes for part in parts_of(node)]])


def literal(value: Any, dtype: str) -> Literal:
    """Returns a constant of a dtype."""
    if dtype == "bool":
        return Literal(bool(value), dtype)
    return Literal(float(value) if is_float(dtype) else int(value), dtype)


def stated(scalar: Scalar) -> Scalar:
    """Returns a scalar with an explicit dtype if its context does not determine it."""
    bare = isinstance(scalar, Literal) and scalar.dtype != "bool"
    return Apply("cast", (scalar,), scalar.dtype) if bare else scalar


def applied(fn: str, args: list[Scalar], dtype: str) -> Scalar:
    """Applies a scalar function in the syntax of kernels."""
    operand, is_total = args[-1].dtype, fn.startswith(ACCUMULATE)
    fn = fn.removeprefix(ACCUMULATE)
    if fn == "cast":
        if dtype not in CONVERSIONS:
            raise NotShown(dtype)
        return args[0] if operand == dtype else Apply("cast", (stated(args[0]),), dtype)
    if fn == "select":
        test, *sides = args
        if all(isinstance(side, Literal) for side in sides):
            sides = [stated(sides[0]), sides[1]]
        return Apply("select", (test, *sides), dtype)
    if operand == "bool" and fn == "abs":
        return args[0]
    if not is_float(operand) and fn in OF_WHOLE:
        known = OF_WHOLE[fn]
        return args[0] if known is None else Literal(known, "bool")
    if fn == "sign":
        return _sign(args[0], dtype)
    if operand == "bool" and fn in ("lt", "le", "gt", "ge"):  # kernels do not order booleans
        return Apply(fn, tuple([applied("cast", [arg], "uint8") for arg in args]), "bool")
    if operand == "bool":
        fn = ON_TRUTH.get(fn, fn)
    if all(isinstance(arg, Literal) for arg in args):
        args = [stated(args[0]), *args[1:]]
    if fn in ("min", "max") and is_float(operand):
        return (_total_extreme if is_total else _extreme)(fn, args, dtype)
    row = SCALAR_FUNCTIONS.get(fn)
    if row is None or not row.takes(operand):
        raise NotShown(f"{fn} of {operand}")
    return Apply(fn, tuple(args), "bool" if row.test else dtype)


def accumulated(combine: str, total: Scalar, term: Scalar) -> Scalar:
    """Combines a total with a term; the terms of float totals may be reordered."""
    if term.dtype != total.dtype:
        term = applied("cast", [term], total.dtype)
    if is_float(total.dtype) and combine in REASSOCIATED:
        return Apply(REASSOCIATED[combine], (total, term), total.dtype)
    return applied(f"{ACCUMULATE}{combine}", [total, term], total.dtype)


def _sign(value: Scalar, dtype: str) -> Scalar:
    """Returns -1, 0 or 1; NaN propagates."""
    zero = literal(0, dtype)
    tests = [applied("cast", [Apply(fn, (value, zero), "bool")], dtype) for fn in ("gt", "lt")]
    difference = Apply("sub", tuple(tests), dtype)
    if not is_float(dtype):
        return difference
    return Apply("select", (Apply("ne", (value, value), "bool"), value, difference), dtype)


def _extreme(fn: str, args: list[Scalar], dtype: str) -> Scalar:
    """Returns the smaller or the greater of two floats, NaN if either is; of equal zeros the second
    one, as in NumPy. Python's function returns its first operand unless the other one is less
    (greater)."""
    first, second = args
    if _is_number(first):
        return Apply(fn, (stated(second), first), dtype)
    if _is_number(second) and second.value != 0:  # type: ignore[attr-defined]
        return Apply(fn, (first, second), dtype)
    chosen = Apply(fn, (stated(second), first), dtype)
    return Apply("select", (Apply("ne", (first, first), "bool"), first, chosen), dtype)


def _total_extreme(fn: str, args: list[Scalar], dtype: str) -> Scalar:
    """Returns the smaller or the greater of a total and a term, NaN if either is."""
    total, term = args
    if _is_number(term):
        return Apply(fn, (total, term), dtype)
    chosen = Apply(fn, (total, term), dtype)
    return Apply("select", (Apply("ne", (term, term), "bool"), term, chosen), dtype)


def _is_number(scalar: Scalar) -> bool:
    return isinstance(scalar, Literal) and scalar.value == scalar.value

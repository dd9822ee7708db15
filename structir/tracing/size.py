"""Sizes of traced arrays: integers that depend on symbolic dims."""

from __future__ import annotations

from typing import Any, NoReturn

from structir.errors import Diagnostic, DiagnosticError, TruthValueError, caller_span
from structir.ir import dims
from structir.ir.dims import Dim, Poly
from structir.tracing import context


class UnknownSizeError(TruthValueError):
    """Python code required the value of a symbolic size. `symbols` are its variables."""

    def __init__(self, diagnostics: Any, symbols: frozenset[Any] = frozenset()) -> None:
        super().__init__(diagnostics)
        self.symbols = symbols


def size(dim: Dim) -> Any:
    """Returns an int, or a TracedSize for a symbolic dim."""
    return TracedSize(dim) if type(dim) is Poly else dim


def as_dim(value: Any) -> Dim:
    """Returns the dim of a size. Raises DiagnosticError for other values."""
    if isinstance(value, TracedSize):
        return value.dim
    if isinstance(value, Poly):
        return value
    if not hasattr(value, "__index__"):
        message = f"size: expected an integer, found {value!r}"
        hint = "sizes are Python integers, or sizes of `x.shape`; the elements of arrays are not"
        raise DiagnosticError(Diagnostic(message, caller_span(), hint=hint, code="E1102"))
    return int(value.__index__())


def is_size(value: Any) -> bool:
    """Whether a value is an integer that is known, or a symbolic size."""
    return isinstance(value, TracedSize | Poly) or (
        hasattr(value, "__index__") and not hasattr(value, "aval") and not isinstance(value, bool)
    )


def as_dims(value: Any) -> tuple[Dim, ...]:
    """Returns the dims of a shape, or of one size."""
    items = value if isinstance(value, tuple | list) or hasattr(value, "__array__") else (value,)
    return tuple([as_dim(item) for item in items])


class TracedSize:
    """A size that is symbolic while a function is traced.

    Integer arithmetic gives sizes; arithmetic with floats and arrays gives traced scalars. A
    comparison is decided by a proof; without one it raises UnknownSizeError.
    """

    __slots__ = ("dim",)
    dim: Poly
    __array_ufunc__ = None  # NumPy defers to the methods of this class

    def __init__(self, dim: Poly) -> None:
        self.dim = dim

    def _unknown(self, use: str) -> NoReturn:
        message = f"the size {dims.text(self.dim)} is symbolic: {use} requires its value"
        hint = "pass a fixed size for it, or write the loop with `structir.lax.fori_loop` or `scan`"
        diagnostic = Diagnostic(message, caller_span(), hint=hint, code="E1102")
        raise UnknownSizeError(diagnostic, frozenset(dims.syms(self.dim)))

    def __index__(self) -> int:
        self._unknown("this use as a Python integer")

    __int__ = __index__

    def __float__(self) -> float:
        self._unknown("`float(...)`")

    def __hash__(self) -> int:
        return hash(self.dim)

    def __str__(self) -> str:
        return dims.text(self.dim)

    __repr__ = __str__

    # ---- integer arithmetic

    def _with(self, other: Any, combine: Any, name: str, swap: bool = False) -> Any:
        if isinstance(other, TracedSize):
            other = other.dim
        elif isinstance(other, bool) or not isinstance(other, int | Poly):
            return _traced(name, self, other, swap)
        return size(combine(other, self.dim) if swap else combine(self.dim, other))

    def __add__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a + b, "add")

    def __radd__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a + b, "add", swap=True)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a - b, "subtract")

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a - b, "subtract", swap=True)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, tuple | list):  # repeats the sequence
            self._unknown("repeating a sequence")
        return self._with(other, lambda a, b: a * b, "multiply")

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return self._with(other, dims.floordiv, "floor_divide")

    def __rfloordiv__(self, other: Any) -> Any:
        return self._with(other, dims.floordiv, "floor_divide", swap=True)

    def __mod__(self, other: Any) -> Any:
        return self._with(other, dims.floormod, "remainder")

    def __rmod__(self, other: Any) -> Any:
        return self._with(other, dims.floormod, "remainder", swap=True)

    def __neg__(self) -> Any:
        return size(0 - self.dim)

    def __pow__(self, exponent: Any) -> Any:
        if isinstance(exponent, int) and exponent >= 0:
            result: Dim = 1
            for _ in range(exponent):
                result = result * self.dim
            return size(result)
        return _traced("power", self, exponent, False)

    def __rpow__(self, base: Any) -> Any:
        return _traced("power", self, base, True)

    def __truediv__(self, other: Any) -> Any:
        return _traced("divide", self, other, False)

    def __rtruediv__(self, other: Any) -> Any:
        return _traced("divide", self, other, True)

    # ---- comparisons

    def _decide(self, other: Any, operator: str) -> bool:
        difference = dims.compare(operator, self.dim, as_dim(other))
        if type(difference) is Poly:
            self._unknown(f"`{self} {operator} {other}`")
        return bool(difference)

    def __eq__(self, other: Any) -> Any:
        if not is_size(other):
            return NotImplemented
        equal = dims.equal(self.dim, as_dim(other))
        return self._decide(other, "==") if equal is None else equal

    def __ne__(self, other: Any) -> Any:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __lt__(self, other: Any) -> bool:
        return self._decide(other, "<")

    def __le__(self, other: Any) -> bool:
        return self._decide(other, "<=")

    def __gt__(self, other: Any) -> bool:
        return self._decide(other, ">")

    def __ge__(self, other: Any) -> bool:
        return self._decide(other, ">=")

    def __bool__(self) -> bool:
        return self._decide(0, "!=")


def _traced(name: str, size_operand: TracedSize, other: Any, swap: bool) -> Any:
    """Applies a function of arrays to a size and another operand."""
    operands = (other, size_operand) if swap else (size_operand, other)
    return context.operator(name)(*operands)

"""The operators of expressions: calls of the ops that declare them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from structir.lazy import provided_module

families = provided_module("ops")
OPERATORS: dict[str, Callable[..., Any]] = {}  # ops that declare `operator="+"`
Result = TypeVar("Result")  # the class of expressions


def operator_call(symbol: str, *operands: Any) -> Any:
    """Returns the call of the op with this operator; NotImplemented if no op declares it."""
    families.load()
    op = OPERATORS.get(symbol)
    return op(*operands) if op is not None else NotImplemented


class Operators(Generic[Result]):
    """Arithmetic, bitwise and order operators, also with a number or array on the left."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy defers to these operators

    def _call(self, symbol: str, *operands: Any) -> Result:
        call: Result = operator_call(symbol, *operands)
        return call

    def __add__(self, other: Any) -> Result:
        return self._call("+", self, other)

    def __radd__(self, other: Any) -> Result:
        return self._call("+", other, self)

    def __sub__(self, other: Any) -> Result:
        return self._call("-", self, other)

    def __rsub__(self, other: Any) -> Result:
        return self._call("-", other, self)

    def __mul__(self, other: Any) -> Result:
        return self._call("*", self, other)

    def __rmul__(self, other: Any) -> Result:
        return self._call("*", other, self)

    def __truediv__(self, other: Any) -> Result:
        return self._call("/", self, other)

    def __rtruediv__(self, other: Any) -> Result:
        return self._call("/", other, self)

    def __floordiv__(self, other: Any) -> Result:
        return self._call("//", self, other)

    def __rfloordiv__(self, other: Any) -> Result:
        return self._call("//", other, self)

    def __mod__(self, other: Any) -> Result:
        return self._call("%", self, other)

    def __rmod__(self, other: Any) -> Result:
        return self._call("%", other, self)

    def __pow__(self, other: Any) -> Result:
        return self._call("**", self, other)

    def __rpow__(self, other: Any) -> Result:
        return self._call("**", other, self)

    def __matmul__(self, other: Any) -> Result:
        return self._call("@", self, other)

    def __rmatmul__(self, other: Any) -> Result:
        return self._call("@", other, self)

    def __and__(self, other: Any) -> Result:
        return self._call("&", self, other)

    def __rand__(self, other: Any) -> Result:
        return self._call("&", other, self)

    def __or__(self, other: Any) -> Result:
        return self._call("|", self, other)

    def __ror__(self, other: Any) -> Result:
        return self._call("|", other, self)

    def __xor__(self, other: Any) -> Result:
        return self._call("^", self, other)

    def __rxor__(self, other: Any) -> Result:
        return self._call("^", other, self)

    def __lshift__(self, other: Any) -> Result:
        return self._call("<<", self, other)

    def __rlshift__(self, other: Any) -> Result:
        return self._call("<<", other, self)

    def __rshift__(self, other: Any) -> Result:
        return self._call(">>", self, other)

    def __rrshift__(self, other: Any) -> Result:
        return self._call(">>", other, self)

    def __invert__(self) -> Result:
        return self._call("~", self)

    def __neg__(self) -> Result:
        return self._call("neg", self)

    def __lt__(self, other: Any) -> Result:
        return self._call("<", self, other)

    def __le__(self, other: Any) -> Result:
        return self._call("<=", self, other)

    def __gt__(self, other: Any) -> Result:
        return self._call(">", self, other)

    def __ge__(self, other: Any) -> Result:
        return self._call(">=", self, other)

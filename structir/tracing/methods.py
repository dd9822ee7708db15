"""Operators and methods of traced arrays: each applies the function of arrays of its name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from structir.tracing.context import operator

METHODS = frozenset(
    {
        *("sum", "mean", "prod", "max", "min", "std", "var", "all", "any", "argmax", "argmin"),
        *("cumsum", "cumprod", "reshape", "ravel", "flatten", "squeeze", "swapaxes", "transpose"),
        *("astype", "clip", "dot", "round", "repeat", "take", "sort", "argsort", "diagonal"),
        *("trace", "conj", "copy", "nonzero"),
    }
)


def _is_foreign(value: Any) -> bool:
    """Whether an operand is not an array or a number, so that Python tries its own operator."""
    return value is None or isinstance(value, str | dict)


class ArrayMethods:
    """The operators of Python, and the methods of NumPy's arrays."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in METHODS:
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=self)
        return partial(operator(name), self)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *METHODS})

    def _apply(self, name: str, *operands: Any) -> Any:
        if any(map(_is_foreign, operands)):
            return NotImplemented
        return operator(name)(*operands)

    def __add__(self, other: Any) -> Any:
        return self._apply("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return self._apply("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return self._apply("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._apply("subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return self._apply("multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._apply("multiply", other, self)

    def __truediv__(self, other: Any) -> Any:
        return self._apply("divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._apply("divide", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self._apply("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._apply("floor_divide", other, self)

    def __mod__(self, other: Any) -> Any:
        return self._apply("remainder", self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._apply("remainder", other, self)

    def __divmod__(self, other: Any) -> Any:
        return self._apply("divmod", self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return self._apply("divmod", other, self)

    def __pow__(self, other: Any) -> Any:
        return self._apply("power", self, other)

    def __rpow__(self, other: Any) -> Any:
        return self._apply("power", other, self)

    def __matmul__(self, other: Any) -> Any:
        return self._apply("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return self._apply("matmul", other, self)

    def __and__(self, other: Any) -> Any:
        return self._apply("bitwise_and", self, other)

    def __rand__(self, other: Any) -> Any:
        return self._apply("bitwise_and", other, self)

    def __or__(self, other: Any) -> Any:
        return self._apply("bitwise_or", self, other)

    def __ror__(self, other: Any) -> Any:
        return self._apply("bitwise_or", other, self)

    def __xor__(self, other: Any) -> Any:
        return self._apply("bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> Any:
        return self._apply("bitwise_xor", other, self)

    def __lshift__(self, other: Any) -> Any:
        return self._apply("left_shift", self, other)

    def __rlshift__(self, other: Any) -> Any:
        return self._apply("left_shift", other, self)

    def __rshift__(self, other: Any) -> Any:
        return self._apply("right_shift", self, other)

    def __rrshift__(self, other: Any) -> Any:
        return self._apply("right_shift", other, self)

    def __eq__(self, other: Any) -> Any:
        return self._apply("equal", self, other)

    def __ne__(self, other: Any) -> Any:
        return self._apply("not_equal", self, other)

    def __lt__(self, other: Any) -> Any:
        return self._apply("less", self, other)

    def __le__(self, other: Any) -> Any:
        return self._apply("less_equal", self, other)

    def __gt__(self, other: Any) -> Any:
        return self._apply("greater", self, other)

    def __ge__(self, other: Any) -> Any:
        return self._apply("greater_equal", self, other)

    def __neg__(self) -> Any:
        return self._apply("negative", self)

    def __pos__(self) -> Any:
        return self._apply("positive", self)

    def __abs__(self) -> Any:
        return self._apply("abs", self)

    def __invert__(self) -> Any:
        return self._apply("bitwise_not", self)

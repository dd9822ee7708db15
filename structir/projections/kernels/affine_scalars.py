"""Translates integer scalars and tests of kernels to dims and conditions over index variables.

A scalar without a translation depends on data: elements, floats, or narrow integers, which wrap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any

from structir.errors import DiagnosticError
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.kernel import Apply, Extent, Literal, Local, Scalar, Size
from structir.projections.spec import Condition

Values = Mapping[Any, Dim | None]  # of scalars, and of functions such as `thread`
INDEX_DTYPE = "int64"
NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


def as_index(scalar: Scalar, values: Values) -> Dim | None:
    """Returns an int64 scalar as a dim; None if it depends on data."""
    if scalar.dtype != INDEX_DTYPE:
        return None
    match scalar:
        case Literal(value):
            return int(value)
        case Size(dim):
            return dim
        case Local():
            return values.get(scalar)
        case Extent(array, axis):
            info: Any = array.struct_info
            size: Dim = info.dims[axis]
            return size
        case Apply(fn, ()):
            return values.get(fn)
        case Apply(fn, args) if fn in DIM_FUNCTIONS:
            return _apply(fn, args, values)
    return None


def _apply(fn: str, args: tuple[Scalar, ...], values: Values) -> Dim | None:
    if fn == "select":
        return _select(args, values)
    indices = [as_index(arg, values) for arg in args]
    known = [index for index in indices if index is not None]
    if len(known) < len(indices):
        return None
    try:
        result: Dim | None = DIM_FUNCTIONS[fn](*known)
    except DiagnosticError:  # a product of many terms, or a division by 0
        return None
    return result


def _select(args: tuple[Scalar, ...], values: Values) -> Dim | None:
    test = conditions_of(args[0], values)
    chosen, other = as_index(args[1], values), as_index(args[2], values)
    if test is None or len(test) != 1 or chosen is None or other is None:
        return None
    return dims.select(dims.compare(test[0].op, test[0].left, test[0].right), chosen, other)


def _quotient(fn: Callable[[Dim, Dim], Dim]) -> Callable[[Dim, Dim], Dim | None]:
    def divide(dividend: Dim, divisor: Dim) -> Dim | None:
        return fn(dividend, divisor) if dims.at_least(divisor, 1) else None

    return divide


DIM_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "floordiv": _quotient(dims.floordiv),
    "mod": _quotient(dims.floormod),
    "min": lambda *args: reduce(dims.dim_min, args),
    "max": lambda *args: reduce(dims.dim_max, args),
    "cast": lambda a: a,
    "select": None,  # type: ignore[dict-item]
}


def conditions_of(test: Scalar, values: Values) -> tuple[Condition, ...] | None:
    """Returns the conditions whose conjunction a test is; None if a part depends on data."""
    known = tuple(known_conditions(test, values))
    return None if None in known else tuple([c for c in known if c is not None])


def known_conditions(
    test: Scalar, values: Values, holds: bool = True
) -> Iterator[Condition | None]:
    """Yields conditions that follow from a test, or from its negation; None for an unknown part."""
    match test:
        case Apply("and", args) if holds:
            for arg in args:
                yield from known_conditions(arg, values, holds)
        case Apply("or", args) if not holds:
            for arg in args:
                yield from known_conditions(arg, values, holds)
        case Apply("not", (arg,)):
            yield from known_conditions(arg, values, not holds)
        case Apply(fn, (left, right)) if fn in NEGATED:
            low, high = as_index(left, values), as_index(right, values)
            known = low is not None and high is not None
            op = fn if holds else NEGATED[fn]
            yield Condition(op, low, high) if known else None  # type: ignore[arg-type]
        case _:
            yield None


def implied(test: Scalar, values: Values, holds: bool = True) -> tuple[Condition, ...]:
    """Returns the conditions that a test implies, or those that its negation implies."""
    return tuple([c for c in known_conditions(test, values, holds) if c is not None])

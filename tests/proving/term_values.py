"""Evaluates terms and normal forms at concrete sizes, independently of the kernel."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Mapping
from random import Random
from typing import Any

import numpy as np

from structir.ir import dims
from structir.ir.dims import Sym
from structir.ir.dtype import int_bits, int_limits, is_float, is_int
from structir.proving.terms import (
    ApplyTerm,
    ElementTerm,
    Fold,
    LiteralTerm,
    NonNegative,
    NormalForm,
    ScalarTerm,
    SizeTerm,
    identity_of,
)

Sizes = Mapping[Sym, int]
FUNCTIONS: dict[str, Any] = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "neg", "lt", "le", "eq")},
    **{name: getattr(operator, name) for name in ("gt", "ge", "ne")},
    "div": lambda a, b: a / b if b else 0.0,
    "inverse": lambda a: 1 / a if a else 0.0,
    "exp": math.exp,
    "log": lambda a: math.log(abs(a) + 1e-300),
    "sqrt": lambda a: math.sqrt(abs(a)),
    "rsqrt": lambda a: 1 / math.sqrt(abs(a)) if a else 0.0,
    "abs": abs,
    "max": max,
    "min": min,
    "pow": lambda a, b: a**b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "xor": lambda a, b: a != b,
    "not": operator.not_,
}
COMBINE: dict[str, Any] = {
    "sum": operator.add,
    "prod": operator.mul,
    "max": max,
    "min": min,
    "any": lambda a, b: a or b,
    "all": lambda a, b: a and b,
}


def element(source: Any, index: tuple[int, ...], dtype: str) -> Any:
    """Returns a pseudorandom element; every index has one."""
    rng = Random(f"{source}{index}{dtype}")
    if is_float(dtype):
        return rng.uniform(-2, 2)
    return rng.random() < 0.5 if dtype == "bool" else rng.randint(*int_limits(dtype))


def wrapped(value: Any, dtype: str) -> Any:
    """Returns a value of a dtype: integers wrap."""
    if not is_int(dtype):
        return bool(value) if dtype == "bool" else value
    low, high = int_limits(dtype)
    return (int(value) - low) % (1 << int_bits(dtype)) + low if value not in (low, high) else value


def value_of(term: Any, sizes: Sizes) -> Any:
    """Returns the value of a term at sizes and indices."""
    return wrapped(_value(term, sizes), term.dtype)


def _value(term: ScalarTerm, sizes: Sizes) -> Any:
    match term:
        case LiteralTerm(value):
            return float(value) if is_float(term.dtype) else value
        case SizeTerm(dim):
            return dims.evaluate(dim, sizes)
        case NonNegative(dim):
            return dims.evaluate(dim, sizes) >= 0
        case ElementTerm(source, index):
            return element(source, tuple([dims.evaluate(i, sizes) for i in index]), term.dtype)
        case ApplyTerm("select", (condition, then, otherwise)):
            return value_of(then if value_of(condition, sizes) else otherwise, sizes)
        case ApplyTerm("cast", (value,)):
            return _cast(value_of(value, sizes), value.dtype, term.dtype)
        case ApplyTerm("max" | "min", args):
            return FUNCTIONS[term.fn]([value_of(a, sizes) for a in args])
        case ApplyTerm(fn, args):
            return FUNCTIONS[fn](*[value_of(a, sizes) for a in args])
        case Fold():
            return _fold(term, sizes)
        case NormalForm(terms):
            total: Any = 0
            for atoms, factor in terms:
                conditions = [a for a in atoms if a.dtype == "bool"]
                if not factor or not all([value_of(c, sizes) for c in conditions]):
                    continue  # a condition excludes what it multiplies, also NaN and infinities
                product: Any = float(factor) if is_float(term.dtype) else factor
                for value in [value_of(a, sizes) for a in atoms]:
                    product = product * value
                total = total + product
            return total % 2 if term.dtype == "bool" else total
    raise TypeError(str(term))


def _cast(value: Any, source: str, dtype: str) -> Any:
    if is_float(source) and is_float(dtype):  # narrow floats are rounded where casts do
        return float(np.asarray(value).astype(dtype))
    return float(value) if is_float(dtype) else int(value)


def _fold(term: Fold, sizes: Sizes) -> Any:
    ranges = [range(dims.evaluate(extent, sizes)) for _, extent in term.variables]
    total = value_of(identity_of(term.monoid, term.dtype), sizes)
    for point in itertools.product(*ranges):
        at = dict(zip([v for v, _ in term.variables], point, strict=True))
        total = COMBINE[term.monoid](total, value_of(term.body, {**sizes, **at}))
        total = wrapped(total, term.dtype)
    return total

"""Values of programs as terms: tensors as functions of their index, tuples and shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from hashlib import blake2b
from math import isfinite
from typing import Any

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Poly, Sym
from structir.ir.dtype import dtype_of, is_float
from structir.ir.node import Node
from structir.ir.struct_info import StructInfo
from structir.proving.terms import ElementTerm, LiteralTerm, ScalarTerm, TableTerm, dim_key

Index = tuple[Dim, ...]
ElementAt = Callable[[Index], ScalarTerm]


class Undecided(Exception):
    """The prover cannot decide an equation; the message says why."""


@attrs.frozen(eq=False)
class TensorValue:
    """A tensor of known shape: its element at an index is a term."""

    dims: tuple[Dim, ...]
    dtype: str
    element: ElementAt
    memo: dict[Any, ScalarTerm] = attrs.Factory(dict)

    def at(self, index: Index) -> ScalarTerm:
        """Returns the element at an index."""
        term = self.memo.get(index)
        if term is None:
            term = self.memo[index] = self.element(index)
        return term

    def table(self) -> TableTerm:
        """Returns the tensor as a term that binds its index."""
        loops = tuple([(Sym(f"t{axis}"), dim) for axis, dim in enumerate(self.dims)])
        return TableTerm(loops, self.at(tuple([dims.as_dim(v) for v, _ in loops])), self.dtype)


@attrs.frozen(eq=False)
class TupleValue:
    """A tuple of values."""

    fields: tuple[Any, ...]


@attrs.frozen(eq=False)
class PlainValue:
    """A shape, a number, a string or a dtype: a value that is part of the program."""

    value: Any


@attrs.frozen(eq=False)
class UnknownValue:
    """A value without terms: a function of other values, identified by a key."""

    key: Any


def as_argument(value: Any) -> Any:
    """Returns a value as an argument of an unknown function: a term, or a tuple of keys."""
    match value:
        case TensorValue():
            return value.table()
        case TupleValue(fields):
            return ("tuple", *map(as_argument, fields))
        case PlainValue(plain):
            return ("value", key_of(plain))
        case UnknownValue(key):
            return ("unknown", key)
    raise Undecided(f"unsupported value {value}")


def flattened(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the tensors among arguments, and inside of them, after the rest of the arguments."""
    tables: list[TableTerm] = []

    def rest(value: Any) -> Any:
        if isinstance(value, TableTerm):
            tables.append(value)
            return "tensor"
        return tuple(map(rest, value)) if isinstance(value, tuple) else value

    return rest(arguments), *tables


def key_of(value: Any) -> Any:
    """Returns a key of an attribute; equal keys mean equal attributes."""
    if isinstance(value, Poly):
        return dim_key(value)
    if isinstance(value, tuple | list):
        return tuple(map(key_of, value))
    if isinstance(value, dict):
        return tuple([(name, key_of(value[name])) for name in sorted(value)])
    if isinstance(value, StructInfo):
        fields = attrs.fields(type(value))  # type: ignore[arg-type]
        return type(value).__name__, tuple([key_of(getattr(value, f.name)) for f in fields])
    if hasattr(value, "tobytes"):
        return constant_key(value)
    if isinstance(value, Node):
        raise Undecided(f"the attribute {value} is part of the program")
    if isinstance(value, str | int | float | bool | None):
        return repr(value)
    return f"{type(value).__name__} {value!r} {getattr(value, 'order', '')}"


def constant_key(data: Any) -> tuple[Any, ...]:
    """Returns a key of the elements of an array."""
    digest = blake2b(data.tobytes(), digest_size=24).hexdigest()
    return "constant", data.shape, dtype_of(data), digest


def number(value: Any, dtype: str) -> LiteralTerm:
    """Returns a literal; a finite float is a fraction."""
    if is_float(dtype):
        value = float(value)
        negative_zero = value == 0 and str(value)[0] == "-"
        exact = isfinite(value) and not negative_zero
        return LiteralTerm(Fraction(value) if exact else value, dtype)
    return LiteralTerm(bool(value) if dtype == "bool" else int(value), dtype)


def of_array(data: Any) -> TensorValue:
    """Returns a constant: a literal if all elements are equal."""
    dtype = dtype_of(data)
    wide = data.astype("float64") if is_float(dtype) else data
    flat = wide.reshape(-1)
    if data.size and bool((data.reshape(-1).view() == data.reshape(-1)[0]).all()) and flat[0] != 0:
        term: ScalarTerm = number(flat[0].item(), dtype)
        return TensorValue(tuple(data.shape), dtype, lambda _: term)
    if data.size and data.tobytes() == data.dtype.type(0).tobytes() * data.size:
        return TensorValue(tuple(data.shape), dtype, lambda _: number(0, dtype))
    key = constant_key(data)

    def element(index: Index) -> ScalarTerm:
        numbers = [i for i in index if isinstance(i, int)]
        if len(numbers) == len(index):
            inside = all([0 <= i < n for i, n in zip(numbers, data.shape, strict=True)])
            if inside:
                return number(wide[tuple(numbers)].item(), dtype)
        return ElementTerm(key, index, dtype)

    return TensorValue(tuple(data.shape), dtype, element)


def of_source(source: Any, sizes: Sequence[Dim], dtype: str) -> TensorValue:
    """Returns a tensor whose elements are unknown: a parameter."""
    return TensorValue(tuple(sizes), dtype, lambda index: ElementTerm(source, index, dtype))

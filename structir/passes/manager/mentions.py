"""Finds the sizes and numbers that a program mentions, at which it may compute otherwise.

A narrow dtype mentions the numbers from which it does not represent all integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from structir.analysis.variables import walk_values
from structir.ir.dims import Dim, Opaque, Poly
from structir.ir.dtype import FLOATS, dtype_of
from structir.ir.expr import Call, Constant, PrimValue, ShapeExpr
from structir.ir.module import IRModule

MOST_ELEMENTS = 16  # of a constant whose elements are mentioned
DTYPE_LIMITS = {
    "int8": (128,),
    "uint8": (256,),
    "int16": (1 << 15,),
    "uint16": (1 << 16,),
    "int32": (1 << 31,),
    "bfloat16": (256,),
    "float16": (1 << 11,),
    "float32": (1 << 24,),
}


@attrs.frozen
class Mentions:
    """Size expressions by their text, and integers and floats, in order of occurrence."""

    sizes: Mapping[str, Dim]
    integers: tuple[int, ...]
    floats: tuple[float, ...]

    def without(self, other: Mentions) -> Mentions:
        """Returns those that another program does not mention."""
        return Mentions(
            {text: dim for text, dim in self.sizes.items() if text not in other.sizes},
            tuple([number for number in self.integers if number not in other.integers]),
            tuple([number for number in self.floats if number not in other.floats]),
        )

    def __bool__(self) -> bool:
        return bool(self.sizes or self.integers or self.floats)


def mentions(module: IRModule) -> Mentions:
    """Returns the mentions of all functions: in shapes, attributes and small constants."""
    values = list(_values(module))
    sizes = {str(value): value for value in values if type(value) is Poly}
    numbers = [value for value in values if type(value) is int]
    floats = [value for value in values if type(value) is float and np.isfinite(value) and value]
    return Mentions(sizes, tuple(dict.fromkeys(numbers)), tuple(dict.fromkeys(floats)))


def _values(module: IRModule) -> Iterator[Any]:
    for node in walk_values(module):
        if isinstance(node, ShapeExpr):
            yield from _parts(node.dims)
        elif isinstance(node, PrimValue):
            yield from _parts(node.value)
        elif isinstance(node, Constant) and node.data.size <= MOST_ELEMENTS:
            yield from _elements(node.data)
        elif isinstance(node, Call):
            yield from _parts(tuple(node.attrs.values()))


def _elements(data: Any) -> Iterator[int | float]:
    if data.dtype.kind in "iu":
        yield from data.ravel().tolist()
    elif dtype_of(data) in FLOATS:
        yield from data.astype(np.float64).ravel().tolist()


def _parts(value: Any) -> Iterator[Any]:
    """Yields the numbers and size expressions of an attribute, those inside sizes among them."""
    if type(value) is int or type(value) is float:
        yield value
    elif type(value) is str:
        yield from DTYPE_LIMITS.get(value, ())
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _parts(item)
    elif type(value) is Poly:
        yield value
        yield from (abs(number) for number in (value.constant, *value.terms.values()) if number)
        yield from _parts(tuple([arg for atom in _opaque(value) for arg in atom.args]))


def _opaque(value: Poly) -> Iterable[Opaque]:
    return dict.fromkeys(atom for atoms in value.terms for atom in atoms if type(atom) is Opaque)

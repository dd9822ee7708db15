"""Finds the sizes and numbers that a program mentions, at which it may compute otherwise.

A narrow dtype mentions the numbers from which it does not represent all integers, those from which
integers wrap around to 0, and how many narrower elements have a sum that it does not represent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from structir.analysis.variables import walk_values
from structir.ir.dims import Dim, Opaque, Poly
from structir.ir.dtype import FLOATS, dtype_of
from structir.ir.expr import Call, Constant, If, MatchCast, PrimValue, ShapeExpr, Tuple
from structir.ir.kernel import Kernel, Literal, Size
from structir.ir.module import IRModule
from structir.ir.op import Op
from structir.ir.requirements import conditions_of
from structir.opdef.memo import spec_of

MOST_ELEMENTS = 16  # of a constant whose elements are mentioned
NARROW_FLOATS = {"bfloat16": 1 << 8, "float16": 1 << 11}
DTYPE_LIMITS = {
    "int8": (1 << 7, 1 << 8),
    "uint8": (1 << 8,),
    "int16": (1 << 15, 1 << 16, 259),
    "uint16": (1 << 16, 258),
    "int32": (1 << 31,),
    **{dtype: (limit,) for dtype, limit in NARROW_FLOATS.items()},
    "float32": (1 << 24,),
}

WRAPPED_SUMS = {"int8": (129,), "uint8": (257,), "int16": (259,), "uint16": (258,)}
WRAPS = (1 << 7, 1 << 8, 1 << 15, 1 << 16)  # numbers of elements whose count is not represented

Place = tuple[str, Any]  # the op that a value belongs to, and the value


@attrs.frozen
class Mentions:
    """Size expressions by their text, and integers and floats, in order of occurrence; numbers that
    are not finite by their text."""

    sizes: Mapping[str, Dim]
    integers: tuple[int, ...]
    floats: tuple[float, ...]
    places: frozenset[Place] = frozenset()  # sizes by their text
    non_finite: tuple[str, ...] = ()

    def without(self, other: Mentions) -> Mentions:
        """Returns those that another program does not mention, or not as operands of the op."""
        new = {value for op, value in self.places - other.places}
        return Mentions(
            {text: dim for text, dim in self.sizes.items() if text in new},
            tuple([number for number in self.integers if number in new]),
            tuple([number for number in self.floats if number in new]),
            non_finite=tuple([text for text in self.non_finite if text in new]),
        )

    def __bool__(self) -> bool:
        return bool(self.sizes or self.integers or self.floats or self.non_finite)


def mentions(module: IRModule, kernels: bool = True) -> Mentions:
    """Returns the mentions of all functions: in shapes, attributes, casts and small constants; with
    `kernels` also those of kernels."""
    members = tuple(module.functions.values())
    members = members if kernels else tuple([m for m in members if not isinstance(m, Kernel)])
    values = [(op, _text_of_non_finite(value)) for op, value in _values(members)]
    sizes = {str(value): value for _, value in values if type(value) is Poly}
    numbers = [value for _, value in values if type(value) is int]
    floats = [value for _, value in values if type(value) is float and value]
    places = [(op, str(value) if type(value) is Poly else value) for op, value in values]
    return Mentions(
        sizes,
        tuple(dict.fromkeys(numbers)),
        tuple(dict.fromkeys(floats)),
        frozenset(places),
        tuple(dict.fromkeys(value for _, value in values if type(value) is str)),
    )


def _text_of_non_finite(value: Any) -> Any:
    return str(value) if type(value) is float and not np.isfinite(value) else value


def _values(members: tuple[Any, ...]) -> Iterator[Place]:
    for node in walk_values(members):
        if isinstance(node, Call):
            op = node.op.name if isinstance(node.op, Op) else ""
            for value in _parts(tuple(node.attrs.values())):
                yield op, value
            for arg in node.args:
                for value in _operand(arg):
                    yield op, value
            for value in _accumulated(node):
                yield op, value
        elif isinstance(node, If) and isinstance(node.cond, PrimValue):
            for value in _parts(node.cond.value):
                yield "", value
        elif isinstance(node, MatchCast):
            conditions = conditions_of(node)
            dims = getattr(node.struct_info, "dims", ()) if not conditions else ()
            for value in _parts((*conditions, *(dims if isinstance(dims, tuple) else ()))):
                yield "", value
        elif isinstance(node, Literal):
            yield "", node.value
        elif isinstance(node, Size):
            for value in _parts(node.dim):
                yield "", value


def _accumulated(call: Call) -> Iterator[int]:
    """Yields numbers of elements whose sum a narrow integer does not represent."""
    dtype = getattr(call.struct_info, "dtype", None)
    if dtype not in WRAPPED_SUMS:
        return
    spec = spec_of(call)
    if spec is not None and any(each.reduce for each in spec.statements):
        yield from WRAPPED_SUMS[dtype]


def _operand(value: Any) -> Iterator[Any]:
    """Yields the numbers and size expressions of an operand."""
    if isinstance(value, ShapeExpr):
        yield from _parts(value.dims)
    elif isinstance(value, PrimValue):
        yield from _parts(value.value)
    elif isinstance(value, Constant):
        if value.data.size <= MOST_ELEMENTS:
            yield from _elements(value.data)
    elif isinstance(value, Tuple):
        for field in value.fields:
            yield from _operand(field)


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

"""Checks and infers dtypes from index signatures.

`@` is followed by a dtype, an attribute, or a dtype variable: `T` any, `F` floating-point, `I`
integer, `J` integer or bool, `B` bool. A number distinguishes variables: `T1`, `T2`. The known
dtypes of a variable must be equal: there is no promotion. An unknown dtype makes the variable
unknown. A dtype variable of the program may be any dtype of the family, and equal to any other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from structir.ir.dtype import DTYPES, FLOATS, INTS, DtypeVar, Element
from structir.opdef.axis_packs import InvalidCall
from structir.opdef.notation import NotationError, OperandAccess

BOOL = frozenset({"bool"})
FAMILIES: dict[str, tuple[frozenset[str], str]] = {
    "T": (DTYPES, "any dtype"),
    "F": (FLOATS, "a floating-point dtype"),
    "I": (INTS, "an integer dtype"),
    "J": (INTS | BOOL, "an integer dtype or bool"),
    "B": (BOOL, "bool"),
}
CONVERTED = {"I": "int64", "J": "int64", "B": "bool"}  # the dtype that a hint converts to
_VARIABLE = re.compile(r"([TFIJB])\d*")

Bound = dict[str, Element]


@cache
def family_of(name: str) -> tuple[frozenset[str], str] | None:
    """Returns the dtypes of a dtype variable and their description; None for another name."""
    match = _VARIABLE.fullmatch(name)
    return FAMILIES[match[1]] if match else None


def conversion(dtype: str) -> str:
    """Returns a hint to convert the argument of the last fact."""
    return f'insert `R.astype({{arg}}, "{dtype}")`'


def bound_dtypes(
    accesses: Sequence[OperandAccess], dtypes: Sequence[Element], attributes: Mapping[str, Any]
) -> Bound:
    """Binds dtype variables to the dtypes of the operands; raises InvalidCall on a mismatch."""
    bound: Bound = {}
    sources: dict[str, int] = {}  # by variable: the operand that binds it
    for k, (access, dtype) in enumerate(zip(accesses, dtypes, strict=True)):
        name = access.dtypes[0]
        family = family_of(name)
        if family is None:
            _check_fixed(k, access, dtype, attributes.get(name, name))
            continue
        if type(dtype) is str and dtype not in family[0]:
            raise InvalidCall(
                f"{access.shown}: expected {family[1]}, found {dtype}",
                ((f"dtype {dtype}", k, None),),
                conversion(CONVERTED.get(name[0], "float32")),
                "E0303",
            )
        if name not in bound:
            bound[name], sources[name] = dtype, k
            continue
        expected = bound[name]
        if type(expected) is str and type(dtype) is str and expected != dtype:
            first = accesses[sources[name]].shown
            message = f"dtype mismatch: {first} has {expected}, {access.shown} has {dtype}"
            other = sources[name]
            if _rank(dtype) > _rank(expected):  # the hint must not round, so `x` is converted
                expected, dtype, other, k = dtype, expected, k, other
            raise InvalidCall(
                message,
                ((f"expected dtype {expected}", other, None), (f"found dtype {dtype}", k, None)),
                f"{conversion(expected)}; there is no implicit dtype promotion",
                "E0202",
            )
        if dtype is None or (type(expected) is DtypeVar and type(dtype) is str):
            bound[name], sources[name] = dtype, k
    return bound


def _rank(dtype: str) -> int:
    """Orders the kinds of dtypes by what they represent: bools, integers, floats."""
    return (dtype in INTS) + 2 * (dtype in FLOATS)


def _check_fixed(k: int, access: OperandAccess, dtype: Element, expected: str) -> None:
    if expected not in DTYPES:
        raise NotationError(f"expected a dtype or an attribute after `@`, found {expected}")
    if type(dtype) is str and dtype != expected:
        raise InvalidCall(
            f"{access.shown}: expected dtype {expected}, found {dtype}",
            ((f"dtype {dtype}", k, None),),
            conversion(expected),
            "E0303",
        )


def result_dtype(access: OperandAccess, bound: Bound, attributes: Mapping[str, Any]) -> Element:
    """Returns the dtype of a result: its first bound alternative."""
    for name in access.dtypes:
        if name in attributes:
            if attributes[name]:
                return attributes[name]
        elif name in bound:
            return bound[name]
        elif family_of(name) is None:
            return name
    return None

"""The dtypes of a line: what its operands may be, and what its results are.

After `@` stands a dtype, an attribute, or a variable: `T` any, `F` floating, `I` integer, `J`
integer or bool, `B` bool, with a number for further ones. Two known dtypes of one variable are
equal: there is no promotion. An unknown one makes the variable unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from structir.ir.dtype import DTYPES, FLOATS, INTS
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
_VARIABLE = re.compile(r"([TFIJB])\d*")

Bound = dict[str, str | None]


@cache
def family_of(name: str) -> tuple[frozenset[str], str] | None:
    """The dtypes that a dtype variable may be; None for a name that is no variable."""
    found = _VARIABLE.fullmatch(name)
    return FAMILIES[found[1]] if found else None


def bound_dtypes(
    accesses: Sequence[OperandAccess], dtypes: Sequence[str | None], attributes: Mapping[str, Any]
) -> Bound:
    """The dtype of each variable, from those of the operands; raises Rejected where they do not
    fit."""
    bound: Bound = {}
    teller: dict[str, int] = {}
    for k, (access, dtype) in enumerate(zip(accesses, dtypes, strict=True)):
        name = access.dtypes[0]
        family = family_of(name)
        if family is None:
            _check_fixed(k, access, dtype, attributes.get(name, name))
            continue
        if dtype is not None and dtype not in family[0]:
            raise InvalidCall(
                f"{access.name} must have {family[1]}, not {dtype}",
                ((f"{access.name} has dtype {dtype}", k, None),),
                "R.astype converts",
            )
        if name not in bound:
            bound[name], teller[name] = dtype, k
            continue
        known = bound[name]
        if known is not None and dtype is not None and known != dtype:
            first = accesses[teller[name]].shown
            raise InvalidCall(
                f"{first} and {access.shown} differ in dtype",
                (
                    (f"{first} has dtype {known}", teller[name], None),
                    (f"{access.shown} has dtype {dtype}", k, None),
                ),
                "dtypes are never converted silently; R.astype converts",
                "E0202",
            )
        if dtype is None:
            bound[name] = None
    return bound


def _check_fixed(k: int, access: OperandAccess, dtype: str | None, wanted: str) -> None:
    if wanted not in DTYPES:
        raise NotationError(f"neither a dtype nor an attribute: {wanted}")
    if dtype is not None and dtype != wanted:
        raise InvalidCall(
            f"{access.name} must have dtype {wanted}, not {dtype}",
            ((f"{access.name} has dtype {dtype}", k, None),),
            "R.astype converts",
        )


def result_dtype(access: OperandAccess, bound: Bound, attributes: Mapping[str, Any]) -> str | None:
    """The dtype of a result: the first alternative that is given."""
    for name in access.dtypes:
        if name in attributes:
            if attributes[name]:
                return str(attributes[name])
        elif name in bound:
            return bound[name]
        elif family_of(name) is None:
            return name
    return None

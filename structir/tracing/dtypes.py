"""Promotion of dtypes: the lattice of JAX, where Python numbers are weak."""

from __future__ import annotations

from functools import cache
from typing import Any

from structir.ir.dtype import numpy_dtype
from structir.lazy import lazy_module

np = lazy_module("numpy")
BOOL, INTEGER, FLOAT = range(3)
DEFAULTS = {BOOL: "bool", INTEGER: "int32", FLOAT: "float32"}
WIDE = {"int64", "float64"}  # the dtypes that NumPy gives to arrays of Python numbers
HALVES = {"float16", "bfloat16"}


@cache
def category(dtype: str) -> int:
    """Returns the category of a dtype: bool, integer or float."""
    if dtype == "bool":
        return BOOL
    return INTEGER if dtype.startswith(("int", "uint")) else FLOAT


def python_dtype(value: Any) -> str:
    """Returns the default dtype of a Python number."""
    if isinstance(value, bool):
        return "bool"
    return DEFAULTS[INTEGER if isinstance(value, int) else FLOAT]


def promote(first: tuple[str, bool], second: tuple[str, bool]) -> tuple[str, bool]:
    """Returns the dtype of the result of two operands, and whether it is weak.

    An operand is a dtype and whether it is weak. A weak operand takes the dtype of the other one
    unless its category is higher.
    """
    (a, a_weak), (b, b_weak) = first, second
    if a_weak == b_weak:
        return _join(a, b), a_weak
    weak, strong = (a, b) if a_weak else (b, a)
    if category(weak) <= category(strong):
        return strong, False
    return DEFAULTS[category(weak)] if weak in WIDE else weak, category(strong) == BOOL


def _join(a: str, b: str) -> str:
    if a == b:
        return a
    ranks = category(a), category(b)
    if ranks[0] != ranks[1]:
        return a if ranks[0] > ranks[1] else b
    if ranks[0] == FLOAT:
        if {a, b} == HALVES:
            return "float32"
        return a if numpy_dtype(a).itemsize > numpy_dtype(b).itemsize else b
    joined = np.promote_types(a, b).name
    return joined if category(joined) == INTEGER else DEFAULTS[FLOAT]


def floating(dtype: str) -> str:
    """Returns the dtype of functions over reals: float32 for integers and bools."""
    return dtype if category(dtype) == FLOAT else DEFAULTS[FLOAT]

"""Dtypes: names, variables, categories, integer limits, and the corresponding NumPy dtypes."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from structir.ir.dim_text import display_name
from structir.lazy import lazy_module

if TYPE_CHECKING:
    import numpy

np = lazy_module("numpy")
difflib = lazy_module("difflib")
ml_dtypes = lazy_module("ml_dtypes")

SMALL_FLOATS = frozenset(
    {
        "float4_e2m1fn",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
    }
)
SMALL_INTS = frozenset({"int2", "int4", "uint2", "uint4"})
NARROW_FLOATS = SMALL_FLOATS | {"float16", "bfloat16"}  # summed in float32
FLOATS = NARROW_FLOATS | {"float32", "float64"}
SIGNED = frozenset({"int2", "int4", "int8", "int16", "int32", "int64"})
UNSIGNED = frozenset({"uint2", "uint4", "uint8", "uint16", "uint32", "uint64"})
INTS = SIGNED | UNSIGNED
DTYPES = FLOATS | INTS | {"bool"}
ELSEWHERE = {
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "int": "int32",
    "long": "int64",
}
MARK = "'"  # the first character of a dtype variable in program text
EXTENDED = SMALL_FLOATS | SMALL_INTS | {"bfloat16"}  # not in NumPy


class DtypeVar:
    """A dtype variable: one unknown dtype at all its occurrences. It equals only itself."""

    __slots__ = ("name",)

    def __init__(self, name: str = "") -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{MARK}{display_name(self) or 'T'}"

    def __copy__(self) -> DtypeVar:
        return self

    def __deepcopy__(self, memo: object) -> DtypeVar:
        return self


Element: TypeAlias = Any  # the dtype of a tensor, its variable, or None if it is unknown


def is_dtype_var(name: object) -> bool:
    """Whether a string is the text of a dtype variable: `'T`."""
    return isinstance(name, str) and name[:1] == MARK and name[1:].isidentifier()


def dtype_hint(name: object) -> str:
    """Returns the hint for an unknown dtype: the closest name, or all names."""
    if is_dtype_var(name):
        return f'name a dtype here, and convert to that of a variable: `R.astype(y, "{name}")`'
    matches = (
        [ELSEWHERE[str(name)]]
        if name in ELSEWHERE
        else difflib.get_close_matches(str(name), DTYPES, 1)
    )
    return f"did you mean {matches[0]!r}?" if matches else f"use one of {', '.join(sorted(DTYPES))}"


def is_float(dtype: str) -> bool:
    """Whether a dtype is a floating-point type."""
    return dtype in FLOATS


def is_int(dtype: str) -> bool:
    """Whether a dtype is an integer type; bool is not."""
    return dtype in INTS


def int_bits(dtype: str) -> int:
    """Returns the width of an integer dtype in bits."""
    return int(dtype.lstrip("uint"))


def wider_int(a: str, b: str) -> str:
    """Returns the promoted dtype of two integer dtypes, as NumPy; int64 instead of float64."""
    unsigned = a in UNSIGNED
    if unsigned is (b in UNSIGNED):
        return max(a, b, key=int_bits)
    unsigned_dtype, signed_dtype = (a, b) if unsigned else (b, a)
    return f"int{min(max(int_bits(signed_dtype), 2 * int_bits(unsigned_dtype)), 64)}"


def int_limits(dtype: str) -> tuple[int, int]:
    """Returns the least and the greatest integer of a dtype."""
    bits = int_bits(dtype)
    return (0, (1 << bits) - 1) if dtype in UNSIGNED else (-(1 << bits - 1), (1 << bits - 1) - 1)


@cache
def numpy_dtype(name: str) -> numpy.dtype:
    """Returns the NumPy dtype of a dtype; ml_dtypes defines bfloat16, float8 and smaller ones."""
    dtype: numpy.dtype = np.dtype(getattr(ml_dtypes, name) if name in EXTENDED else name)
    return dtype


def dtype_of(array: numpy.ndarray) -> str:
    """Returns the StructIR dtype of an array."""
    return dtype_name(array.dtype)


@lru_cache(256)
def dtype_name(dtype: numpy.dtype) -> str:
    """Returns the name of a NumPy dtype, which NumPy composes anew each time."""
    return dtype.name

"""The element types: their names, their kinds, and NumPy's types for them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

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
FLOATS = SMALL_FLOATS | {"float16", "bfloat16", "float32", "float64"}
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
EXTENDED = SMALL_FLOATS | SMALL_INTS | {"bfloat16"}  # beyond NumPy's own


def dtype_hint(name: object) -> str:
    """What to write in place of a name that is no dtype."""
    near = (
        [ELSEWHERE[str(name)]]
        if name in ELSEWHERE
        else difflib.get_close_matches(str(name), DTYPES, 1)
    )
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(DTYPES))}"


def is_float(dtype: str) -> bool:
    """Whether elements are floating-point numbers."""
    return dtype in FLOATS


def is_int(dtype: str) -> bool:
    """Whether elements are integers; bool is none."""
    return dtype in INTS


def int_bits(dtype: str) -> int:
    """How many bits an integer of a dtype has."""
    return int(dtype.lstrip("uint"))


def wider_int(a: str, b: str) -> str:
    """The narrowest dtype that holds the integers of two, as NumPy promotes them; int64 where there
    is none, for it has no wider one."""
    unsigned = a in UNSIGNED
    if unsigned is (b in UNSIGNED):
        return max(a, b, key=int_bits)
    plain, signed = (a, b) if unsigned else (b, a)
    return f"int{min(max(int_bits(signed), 2 * int_bits(plain)), 64)}"


def int_limits(dtype: str) -> tuple[int, int]:
    """The least and the greatest integer of a dtype, those of less than a byte too."""
    bits = int_bits(dtype)
    return (0, (1 << bits) - 1) if dtype in UNSIGNED else (-(1 << bits - 1), (1 << bits - 1) - 1)


@cache
def numpy_dtype(name: str) -> numpy.dtype:
    """NumPy's type for a dtype; bfloat16 and float8 come from ml_dtypes."""
    made: numpy.dtype = np.dtype(getattr(ml_dtypes, name) if name in EXTENDED else name)
    return made


def dtype_of(array: numpy.ndarray) -> str:
    """The dtype of an array, as StructIR names it."""
    return array.dtype.name

"""Checked access to the fields of an exported program's JSON."""

from __future__ import annotations

from typing import Any

from structir.errors import Diagnostic, DiagnosticError

# torch's codes of element types; a complex type is imported as two tensors of its part dtype
DTYPES = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float16",
    7: "float32",
    8: "float64",
    12: "bool",
    13: "bfloat16",
    28: "uint16",
    29: "float8_e4m3fn",
    30: "float8_e5m2",
    31: "float8_e4m3fnuz",
    32: "float8_e5m2fnuz",
    33: "float8_e8m0fnu",
    34: "uint32",
    35: "uint64",
}
COMPLEX_PARTS = {10: "float32", 11: "float64"}


def field(holder: Any, name: str, kind: type) -> Any:
    """Returns a field of a type; raises `DiagnosticError` if it is missing or of another type."""
    value = holder.get(name) if isinstance(holder, dict) else None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise malformed(f"a field {name!r} of type {kind.__name__}")
    return value


def malformed(expected: str) -> DiagnosticError:
    """Returns the error of malformed JSON; `expected` names the missing part."""
    return DiagnosticError(
        Diagnostic(f"malformed exported program: expected {expected}", code="E0808")
    )


def tagged(union: Any) -> tuple[str, Any]:
    """Returns the tag and the value of a tagged union."""
    if not isinstance(union, dict) or len(union) != 1:
        raise malformed("a tagged value")
    return next(iter(union.items()))


def integers(sizes: Any) -> list[int]:
    """Returns sizes that must all be integers."""
    if not isinstance(sizes, list):
        raise malformed("a list of sizes")
    results = [tagged(item) for item in sizes]
    if any(k != "as_int" or not isinstance(v, int) or abs(v) >= 1 << 62 for k, v in results):
        raise malformed("constant integer sizes")
    return [int(value) for _, value in results]


def as_float(value: Any) -> float:
    """Returns a float; infinities and NaN are strings in JSON."""
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise malformed("a number") from error

"""Fields of the JSON of an exported program: taken out by name and kind, wrong ones told."""

from __future__ import annotations

from typing import Any

from structir.errors import Diagnostic, DiagnosticError

# torch's numbers for element types; complex ones have no dtype here
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


def field(holder: Any, name: str, kind: type) -> Any:
    """A field that must be there and of this kind."""
    found = holder.get(name) if isinstance(holder, dict) else None
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        raise malformed(f"a field {name!r} of kind {kind.__name__}")
    return found


def malformed(expected: str) -> DiagnosticError:
    """The error that tells what the file should hold."""
    return DiagnosticError(Diagnostic(f"the exported program is malformed: it lacks {expected}"))


def tagged(union: Any) -> tuple[str, Any]:
    """The kind and the value of a field that holds one of several."""
    if not isinstance(union, dict) or len(union) != 1:
        raise malformed("the kind of a value")
    return next(iter(union.items()))


def integers(listed: Any) -> list[int]:
    """Sizes that must all be numbers."""
    if not isinstance(listed, list):
        raise malformed("a list of sizes")
    found = [tagged(item) for item in listed]
    if any(k != "as_int" or not isinstance(v, int) or abs(v) >= 1 << 62 for k, v in found):
        raise malformed("sizes that are numbers")
    return [int(value) for _, value in found]


def real(value: Any) -> float:
    """A number; what is no number in JSON is a text there."""
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise malformed("a number") from error

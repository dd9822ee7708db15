"""Kinds of the values of compiled functions: dtypes, pointers such as `int64*`, tuples, and none;
and functions that emit LLVM instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
from llvmlite import ir

Kind = Any  # a dtype, a dtype with `*`, "none", or a tuple of kinds
INDEX, BOOLEAN, NOTHING = "int64", "bool", "none"
WORDS = f"{INDEX}*"
TYPES: dict[Kind, Any] = {
    BOOLEAN: ir.IntType(1),
    NOTHING: ir.VoidType(),
    "float32": ir.FloatType(),
    "float64": ir.DoubleType(),
    **{f"{sign}int{bits}": ir.IntType(bits) for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
SIGNED = frozenset({"int8", "int16", "int32", "int64"})
UNSIGNED = frozenset({"uint8", "uint16", "uint32", "uint64"})
FLOATS = frozenset({"float32", "float64"})


def is_pointer(kind: Kind) -> bool:
    """Whether values are addresses of elements."""
    return isinstance(kind, str) and kind.endswith("*")


def element_of(pointer: Kind) -> Kind:
    """Returns the dtype of the elements of a pointer."""
    return pointer.removesuffix("*")


def llvm_type(kind: Kind) -> Any:
    """Returns the type of a number or a pointer in LLVM; booleans in memory are bytes."""
    if not is_pointer(kind):
        return TYPES[kind]
    element = element_of(kind)
    return (ir.IntType(8) if element == BOOLEAN else TYPES[element]).as_pointer()


Signature = tuple[Kind, tuple[Kind, ...]]  # of the result and of the arguments
Write = Callable[[Any, Sequence[Any], Sequence[Kind]], Any]


@attrs.frozen(eq=False)
class Intrinsic:
    """A function that emits instructions at each call.

    `signature` returns the kinds of its result and its arguments, given those of the operands, and
    `write` the result, from a builder, the arguments, and their kinds.
    """

    signature: Callable[..., Signature]
    write: Write

    def __call__(self, *args: Any) -> Any:
        """Raises TypeError: only compiled functions can call it."""
        raise TypeError("an intrinsic is called in compiled functions only")


def intrinsic(result: Kind, *arguments: Kind) -> Callable[[Write], Any]:
    """Returns the decorator of an intrinsic with this signature."""
    return lambda write: Intrinsic(lambda *kinds: (result, arguments), write)


def of_operands(count: int) -> Callable[[Write], Any]:
    """Returns the decorator of an intrinsic whose operands and result have the kind of its first
    operand."""
    return lambda write: Intrinsic(lambda first, *rest: (first, (first,) * count), write)

"""Emits the scalar expressions of kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.dtype import is_float
from structir.ir.kernel import (
    Apply,
    Argument,
    Element,
    Extent,
    Literal,
    Local,
    LoopVariable,
    Scalar,
    Size,
)
from structir.loops.emit.emitter import Emitter
from structir.loops.emit.functions import applied, is_cheap
from structir.loops.emit.index_proofs import BOUNDS
from structir.loops.program.kernel_table import dtype_of
from structir.targets.cpu.assembly import STORED, TYPES, constant, converted, loaded

ZERO = "0"


def _argument(emitter: Emitter, argument: Argument) -> str:
    """A scalar parameter: an integer is a size, others are in memory."""
    number = emitter.table.numbers.get(argument.var)
    if number is not None:
        return emitter.size(dims.as_dim(number))
    if argument.var in emitter.singles:
        return emitter.single(argument.var)
    return loaded(emitter.asm, emitter.array(argument.var), dtype_of(argument.var))


def _element(emitter: Emitter, element: Element) -> str:
    is_register = element.array in emitter.registers
    return loaded(emitter.asm, pointer(emitter, element), dtype_of(element.array), is_register)


def pointer(emitter: Emitter, element: Element) -> str:
    """Emits the address of an element, with checks of the indices that are not surely in range.

    All indices but the last one move the pointer, so that accesses of an inner loop share its
    index.
    """
    if element in emitter.pointers:
        return emitter.pointers[element]
    indices = [
        _checked(emitter, element, axis, index, size)
        for axis, (index, size) in enumerate(
            zip(element.indices, _sizes(emitter, element), strict=True)
        )
    ]
    return address(emitter, element, indices)


def _sizes(emitter: Emitter, element: Element) -> Sequence[Dim]:
    if element.flat:
        return (emitter.table.elements(element.array),)
    return emitter.table.shapes[element.array]


def _checked(emitter: Emitter, element: Element, axis: int, index: Scalar, size: Dim) -> str:
    value = emitter.index(index)
    if not is_sure(emitter, element, axis, size):
        site = emitter.checks.site(element.array, axis, element)
        emitter.checks.inside(value, emitter.size(size), site)
    return value


def is_sure(emitter: Emitter, element: Element, axis: int, size: Dim) -> bool:
    """Returns whether an index needs no check."""
    if emitter.is_generated:
        return True
    return element in emitter.sure or emitter.ranges.inside(element.indices[axis], size)


def address(emitter: Emitter, element: Element, indices: Sequence[str]) -> str:
    """Emits the address of the element at these indices."""
    asm, base = emitter.asm, emitter.array(element.array)
    kind = STORED[dtype_of(element.array)]
    outer, last = outer_offset(emitter, element, indices), indices[-1] if indices else ZERO
    for offset in (outer, last):
        if offset != ZERO:
            base = asm.value(f"getelementptr inbounds {kind}, ptr {base}, i64 {offset}")
    return base


def outer_offset(emitter: Emitter, element: Element, indices: Sequence[str]) -> str:
    """Emits the number of elements before the row of an element, in row-major order."""
    if len(indices) < 2:
        return ZERO
    asm, offset = emitter.asm, ZERO
    for index, size in zip(indices[:-1], emitter.table.shapes[element.array][1:], strict=True):
        offset = index if offset == ZERO else asm.integer("add nsw", offset, index)
        if offset != ZERO:
            offset = asm.integer("mul nsw", offset, emitter.size(size))
    return offset


def _literal(emitter: Emitter, literal: Literal) -> str:
    if literal.dtype == "int64":
        return emitter.integer(int(literal.value))
    return constant(literal.value, literal.dtype)


def _apply(emitter: Emitter, apply: Apply) -> str:
    if apply in emitter.divisions:
        return emitter.divisions[apply]
    if apply.fn in LAZY:
        return LAZY[apply.fn](emitter, apply)
    operand = apply.args[-1].dtype
    if apply.fn == "cast" and is_float(apply.dtype) and _is_int32(emitter, apply.args[0]):
        return converted(emitter.asm, _as_int32(emitter, apply.args[0]), "int32", apply.dtype)
    args = [emitter.scalar(arg) for arg in apply.args]
    if apply.fn == "cast":
        return converted(emitter.asm, args[0], operand, apply.dtype)
    if apply.fn in OF_POSITIVES and apply.dtype == "int64" and _are_positive(emitter, apply):
        return emitter.asm.integer(OF_POSITIVES[apply.fn], *args)
    return applied(emitter.asm, apply.fn, operand, args)


def _is_int32(emitter: Emitter, scalar: Scalar) -> bool:
    """Whether an int64 is proved to have 32 bits: vectors of these are computed and converted
    faster."""
    bounds = emitter.ranges.bounds(scalar) if scalar.dtype == "int64" else None
    return bounds is not None and bounds[0] >= -(2**31) and bounds[1] < 2**31


def _as_int32(emitter: Emitter, scalar: Scalar) -> str:
    """Emits an int64 that has 32 bits as an int32."""
    asm = emitter.asm
    args = scalar.args if isinstance(scalar, Apply) and scalar.fn in BOUNDS else ()
    if isinstance(scalar, Apply) and args and all(_is_int32(emitter, arg) for arg in args):
        left, right = [("i32", _as_int32(emitter, arg)) for arg in args]
        if scalar.fn in ("min", "max"):
            return asm.intrinsic(f"s{scalar.fn}", "i32", [left, right])
        return asm.value(f"{scalar.fn} nsw i32 {left[1]}, {right[1]}")
    if isinstance(scalar, Literal):
        return str(scalar.value)
    return asm.value(f"trunc i64 {emitter.scalar(scalar)} to i32")


def _are_positive(emitter: Emitter, division: Apply) -> bool:
    """Whether a division is proved to have a dividend of at least 0 and a positive divisor."""
    over, under = division.args
    return emitter.ranges.at_least(under, 1) and emitter.ranges.at_least(over, 0)


def _select(emitter: Emitter, apply: Apply) -> str:
    """A conditional: a selection where both sides are cheap, else a branch."""
    kind, (test, *sides) = TYPES[apply.dtype], apply.args
    condition = emitter.scalar(test)
    if all(_may_precede(emitter, side) for side in sides):
        return emitter.asm.select(condition, kind, *[emitter.scalar(side) for side in sides])
    return emitter.asm.joined(kind, condition, [_later(emitter, side) for side in sides])


def _decided(decisive: str) -> Callable[[Emitter, Apply], str]:
    """`and` and `or`, whose right operand is evaluated unless the left one is decisive."""

    def decide(emitter: Emitter, apply: Apply) -> str:
        left, right = apply.args
        first = emitter.scalar(left)
        sides = [lambda: decisive, _later(emitter, right)]
        if _may_precede(emitter, right):
            second = emitter.scalar(right)
            if isinstance(right, Local):  # which LLVM need not keep from an undefined result
                return emitter.asm.value(f"{apply.fn} i1 {first}, {second}")
            pair = (decisive, second) if decisive == "true" else (second, decisive)
            return emitter.asm.select(first, "i1", *pair)
        return emitter.asm.joined("i1", first, sides if decisive == "true" else sides[::-1])

    return decide


def _later(emitter: Emitter, scalar: Scalar) -> Callable[[], str]:
    return lambda: emitter.scalar(scalar)


def _may_precede(emitter: Emitter, scalar: Scalar) -> bool:
    """Returns whether an expression may be evaluated where its value is not needed: it is cheap,
    and no check in it can fail."""
    if isinstance(scalar, Apply):
        operand = scalar.args[-1].dtype
        cheap = scalar.fn in ("cast", *LAZY) or is_cheap(scalar.fn, operand)
        return cheap and all(_may_precede(emitter, arg) for arg in scalar.args)
    if isinstance(scalar, Element):
        axes = enumerate(zip(scalar.indices, _sizes(emitter, scalar), strict=True))
        return all(
            is_sure(emitter, scalar, axis, size) and _may_precede(emitter, index)
            for axis, (index, size) in axes
        )
    return True


# Divisions of integers that need no correction for signs, and none for divisors of 0.
OF_POSITIVES = {"floordiv": "udiv", "mod": "urem"}
LAZY: dict[str, Callable[[Emitter, Apply], str]] = {
    "and": _decided("false"),
    "or": _decided("true"),
    "select": _select,
}
SCALARS: dict[type, Callable[[Emitter, Any], str]] = {
    Literal: _literal,
    Local: lambda emitter, local: emitter.local(local),
    LoopVariable: lambda emitter, local: emitter.local(local),
    Size: lambda emitter, size: emitter.size(size.dim),
    Argument: _argument,
    Extent: lambda emitter, extent: emitter.size(emitter.table.shapes[extent.array][extent.axis]),
    Element: _element,
    Apply: _apply,
}

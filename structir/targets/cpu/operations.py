"""Emission of single operations on numbers and pointers. Dtypes are NumPy's, but arithmetic on
integers has 64 bits."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any

import attrs
import numpy as np
from llvmlite import ir

from structir.targets.cpu.arithmetic import declared
from structir.targets.cpu.kinds import (
    BOOLEAN,
    FLOATS,
    INDEX,
    NOTHING,
    SIGNED,
    TYPES,
    UNSIGNED,
    Intrinsic,
    Kind,
    element_of,
    is_pointer,
    llvm_type,
)

COMPARISONS: tuple[Any, ...] = (operator.lt, operator.le, operator.gt, operator.ge)
COMPARISONS += (operator.eq, operator.ne)
CONDITIONS = frozenset((*COMPARISONS, operator.not_))  # constants of constant operands
FAST = frozenset({"fadd", "fsub", "fmul", "fdiv", "frem", "fcmp"})


class UntranslatedError(Exception):
    """The source has a construct that compiled functions do not have."""


@attrs.frozen(eq=False)
class Typed:
    """A value and its kind; `number` is its value if it is an integer literal.

    A tuple's value is a tuple of values.
    """

    value: Any
    kind: Any
    number: int | None = None


class Operations:
    """Emits operators and function calls at the position of a builder."""

    index: Any = INDEX
    boolean: Any = BOOLEAN
    nothing_kind: Any = NOTHING

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self._is_contracted = False

    def constant(self, value: Any) -> Typed:
        """Returns a literal."""
        value = value.value if isinstance(value, Enum) else value
        plain = value.item() if isinstance(value, np.generic) else value
        kind = str(value.dtype) if isinstance(value, np.generic) else _kind_of_number(plain)
        number = plain if isinstance(plain, int) else None
        return Typed(ir.Constant(llvm_type(kind), plain), kind, number)

    def nothing(self) -> Typed:
        """Returns the value of a function without a result."""
        return Typed(None, NOTHING)

    @contextmanager
    def contracted(self) -> Iterator[None]:
        """Allows fused multiply-add in the instructions that are emitted in this context."""
        if self._is_contracted:
            yield
            return
        function, block = self.builder.function, self.builder.block
        instructions, blocks = len(block.instructions), len(function.blocks)
        self._is_contracted = True
        yield
        self._is_contracted = False
        added = [*block.instructions[instructions:]]
        added += [i for b in function.blocks[blocks:] for i in b.instructions]
        for instruction in added:
            if instruction.opname in FAST and not instruction.flags:
                instruction.flags.append("contract")

    def is_pointer(self, kind: Kind) -> bool:
        """Whether values of a kind are pointers."""
        return is_pointer(kind)

    def cast(self, operand: Typed, kind: Kind) -> Any:
        """Converts a value to a kind."""
        if operand.kind == kind:
            return operand.value
        if operand.kind not in NUMBERS or kind not in NUMBERS:
            raise UntranslatedError(f"cannot convert {operand.kind} to {kind}")
        return _converted(self.builder, operand.value, operand.kind, kind)

    def truth(self, operand: Typed) -> Any:
        """Converts a value to a boolean."""
        return self.cast(operand, self.boolean)

    def applied(self, function: Any, args: Sequence[Typed]) -> Typed:
        """Applies a Python operator or function, a dtype, or an intrinsic."""
        if isinstance(function, Intrinsic):
            result, kinds = function.signature(*[a.kind for a in args])
            if len(kinds) != len(args):
                raise UntranslatedError(f"expected {len(kinds)} arguments, found {len(args)}")
            values = [self.cast(a, k) for a, k in zip(args, kinds, strict=True)]
            return Typed(function.write(self.builder, values, kinds), result)
        numbers = [a.number for a in args]
        if function in CONDITIONS and None not in numbers:
            return self.constant(function(*numbers))
        emit = EMITTERS.get(function)
        if emit is not None:
            return emit(self, *args)
        if isinstance(function, type) and len(args) == 1:
            kind = _kind_of_type(function, args[0].kind)
            return Typed(self.cast(args[0], kind), kind)
        name = getattr(function, "__name__", function)
        raise UntranslatedError(f"{name} is not available in compiled functions")

    def element(self, table: Any, index: Typed) -> Typed:
        """Returns an element of a constant array."""
        module, kind = self.builder.module, str(table.dtype)
        element = llvm_type(kind)
        name, shape = module.get_unique_name("table"), ir.ArrayType(element, len(table))
        memory = ir.GlobalVariable(module, shape, name)
        memory.linkage, memory.global_constant = "internal", True
        memory.initializer = ir.Constant(shape, [ir.Constant(element, v) for v in table.tolist()])
        pointer = Typed(self.builder.bitcast(memory, element.as_pointer()), f"{kind}*")
        return self.applied(operator.getitem, (pointer, index))

    def together(self, fields: Sequence[Typed]) -> Typed:
        """Returns a tuple of values."""
        return Typed(tuple([f.value for f in fields]), tuple([f.kind for f in fields]))

    def fields(self, operand: Typed) -> list[Typed]:
        """Returns the fields of a tuple."""
        return [Typed(*pair) for pair in zip(operand.value, operand.kind, strict=True)]

    def common_kind(self, kinds: Sequence[Kind]) -> Kind:
        """Returns the common kind of several kinds."""
        first, *others = kinds
        for other in others:
            if other != first:
                _require_numbers("a condition", (first, other))
                first = _promoted(first, other)
        return first

    def slot(self, kind: Kind) -> Any:
        """Allocates a stack slot for a variable."""
        if isinstance(kind, tuple) or kind == NOTHING:
            raise UntranslatedError("a variable of tuples is assigned twice")
        with self.builder.goto_entry_block():
            return self.builder.alloca(llvm_type(kind))


NUMBERS = frozenset(TYPES) - {NOTHING}


def _kind_of_number(value: Any) -> Kind:
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, float):
        return "float64"
    return INDEX if -(2**63) <= value < 2**63 else "uint64"


def _kind_of_type(function: type, kind: Kind) -> Kind:
    """Returns the kind to which a dtype, or a type of Python, converts a value."""
    if function is bool:
        return BOOLEAN
    if function is float:
        return kind if kind in FLOATS else "float64"
    if function is int:
        return kind if kind in SIGNED | UNSIGNED else INDEX
    name = np.dtype(function).name if issubclass(function, np.generic) else function.__name__
    if name not in NUMBERS:
        raise UntranslatedError(f"there are no numbers of {name}")
    return name


def _promoted(first: Kind, second: Kind) -> Kind:
    return str(np.promote_types(first, second))


def _require_numbers(name: str, kinds: Sequence[Kind]) -> None:
    if not NUMBERS.issuperset(kinds):
        raise UntranslatedError(f"{name} of {', '.join(map(str, kinds))}")


def _converted(builder: Any, value: Any, source: Kind, target: Kind) -> Any:
    """Emits the conversion of a number to another dtype."""
    if target == BOOLEAN:
        zero = ir.Constant(value.type, 0)
        compare = builder.fcmp_unordered if source in FLOATS else builder.icmp_unsigned
        return compare("!=", value, zero)
    if source == BOOLEAN:
        value, source = builder.zext(value, ir.IntType(32)), "int32"
    to = TYPES[target]
    if source in FLOATS and target in FLOATS:
        return (builder.fpext if target == "float64" else builder.fptrunc)(value, to)
    if source in FLOATS:
        return (builder.fptosi if target in SIGNED else builder.fptoui)(value, to)
    if target in FLOATS:
        return (builder.sitofp if source in SIGNED else builder.uitofp)(value, to)
    if to.width <= value.type.width:
        return value if to.width == value.type.width else builder.trunc(value, to)
    return (builder.sext if source in SIGNED else builder.zext)(value, to)


Emit = Callable[..., Typed]


def _kind_of_integers(*kinds: Kind) -> Kind:
    """Returns the kind of arithmetic on integers and booleans."""
    return "uint64" if all(kind in UNSIGNED for kind in kinds) else INDEX


def _common(name: str, left: Typed, right: Typed) -> Kind:
    """Returns the kind of arithmetic on two numbers."""
    _require_numbers(name, (left.kind, right.kind))
    if left.kind in FLOATS or right.kind in FLOATS:
        return _promoted(left.kind, right.kind)
    return _kind_of_integers(left.kind, right.kind)


def _arithmetic(name: str) -> Emit:
    """Returns the emitter of `add`, `sub` or `mul`; signed integers do not overflow."""

    def emit(operations: Operations, left: Typed, right: Typed) -> Typed:
        kind = _common(name, left, right)
        values = [operations.cast(operand, kind) for operand in (left, right)]
        if kind in FLOATS:
            return Typed(getattr(operations.builder, f"f{name}")(*values), kind)
        flags = ("nsw",) if kind in SIGNED else ()
        return Typed(getattr(operations.builder, name)(*values, flags=flags), kind)

    return emit


def _quotient(operations: Operations, left: Typed, right: Typed) -> Typed:
    kind = _common("a quotient", left, right)
    kind = kind if kind in FLOATS else "float64"
    values = [operations.cast(operand, kind) for operand in (left, right)]
    return Typed(operations.builder.fdiv(*values), kind)


def _bitwise(name: str) -> Emit:
    """Returns the emitter of an operation on the bits of integers, or on booleans."""

    def emit(operations: Operations, left: Typed, right: Typed) -> Typed:
        kind = BOOLEAN
        if (left.kind, right.kind) != (BOOLEAN, BOOLEAN):
            kind = _common(name, left, right)
        if kind in FLOATS:
            raise UntranslatedError(f"{name} of floats")
        values = [operations.cast(operand, kind) for operand in (left, right)]
        return Typed(getattr(operations.builder, name)(*values), kind)

    return emit


def _shift(signed: str, unsigned: str) -> Emit:
    """Returns the emitter of a shift, which has the sign of its first operand."""

    def emit(operations: Operations, left: Typed, right: Typed) -> Typed:
        kind = _kind_of_integers(left.kind)
        if _common("a shift", left, right) in FLOATS:
            raise UntranslatedError("a shift of floats")
        values = [operations.cast(operand, kind) for operand in (left, right)]
        shift = getattr(operations.builder, signed if kind in SIGNED else unsigned)
        return Typed(shift(*values), kind)

    return emit


def _comparison(symbol: str) -> Emit:
    def emit(operations: Operations, left: Typed, right: Typed) -> Typed:
        builder, kind = operations.builder, _common(symbol, left, right)
        kinds = {left.kind, right.kind}
        if "uint64" in kinds and kind in SIGNED and kinds & SIGNED:
            return Typed(_mixed(operations, symbol, left, right), BOOLEAN)
        values = [operations.cast(operand, kind) for operand in (left, right)]
        if kind in FLOATS:
            compare = builder.fcmp_unordered if symbol == "!=" else builder.fcmp_ordered
        else:
            compare = builder.icmp_signed if kind in SIGNED else builder.icmp_unsigned
        return Typed(compare(symbol, *values), BOOLEAN)

    return emit


def _mixed(operations: Operations, symbol: str, left: Typed, right: Typed) -> Any:
    """Emits the comparison of a signed integer with one of 64 bits without a sign: negative numbers
    are compared with 0."""
    builder = operations.builder
    values = [operations.cast(operand, INDEX) for operand in (left, right)]
    zero = ir.Constant(ir.IntType(64), 0)
    place = 0 if left.kind in SIGNED else 1
    sides = [values[0], zero] if place == 0 else [zero, values[1]]
    is_negative = builder.icmp_signed("<", values[place], zero)
    below = builder.icmp_signed(symbol, *sides)
    return builder.select(is_negative, below, builder.icmp_unsigned(symbol, *values))


def _division(is_quotient: bool) -> Emit:
    """Returns the emitter of the quotient or the remainder of the floor division of integers; it is
    0 where the divisor is 0, or the quotient overflows."""

    def emit(operations: Operations, left: Typed, right: Typed) -> Typed:
        builder, kind = operations.builder, _common("a division", left, right)
        if kind in FLOATS:
            raise UntranslatedError("a floor division of floats")
        x, y = [operations.cast(operand, kind) for operand in (left, right)]
        one, zero = ir.Constant(x.type, 1), ir.Constant(x.type, 0)
        is_undefined = builder.icmp_unsigned("==", y, zero)
        if kind in SIGNED:
            is_least = builder.icmp_signed("==", x, ir.Constant(x.type, -(2**63)))
            is_minus_one = builder.icmp_signed("==", y, ir.Constant(x.type, -1))
            is_undefined = builder.or_(is_undefined, builder.and_(is_least, is_minus_one))
        divisor = builder.select(is_undefined, one, y)
        if kind in SIGNED:
            value = builder.srem(x, divisor)
            differs = builder.icmp_signed("<", builder.xor(y, value), zero)
            is_below = builder.and_(builder.icmp_signed("!=", value, zero), differs)
            if is_quotient:
                value = builder.sdiv(x, divisor)
                value = builder.sub(value, builder.zext(is_below, x.type))
            else:
                value = builder.add(value, builder.select(is_below, y, zero))
        else:
            value = (builder.udiv if is_quotient else builder.urem)(x, divisor)
        return Typed(builder.select(is_undefined, zero, value), kind)

    return emit


def _negative(operations: Operations, operand: Typed) -> Typed:
    _require_numbers("a negative", (operand.kind,))
    builder = operations.builder
    if operand.kind in FLOATS:
        zero = ir.Constant(operand.value.type, -0.0)
        return Typed(builder.fsub(zero, operand.value), operand.kind)
    kind = _kind_of_integers(operand.kind)
    value = builder.sub(ir.Constant(operand.value.type, 0), operand.value)
    number = None if operand.number is None else -operand.number
    return Typed(operations.cast(Typed(value, operand.kind), kind), kind, number)


def _inverse(operations: Operations, operand: Typed) -> Typed:
    if operand.kind not in SIGNED | UNSIGNED:
        raise UntranslatedError(f"~ of {operand.kind}")
    kind = _kind_of_integers(operand.kind)
    inverted = Typed(operations.builder.not_(operand.value), operand.kind)
    return Typed(operations.cast(inverted, kind), kind)


def _not(operations: Operations, operand: Typed) -> Typed:
    return Typed(operations.builder.not_(operations.truth(operand)), BOOLEAN)


def _magnitude(operations: Operations, operand: Typed) -> Typed:
    if operand.kind in FLOATS:
        return _unary("fabs")(operations, operand)
    if operand.kind in UNSIGNED:
        return operand
    if operand.kind not in SIGNED:
        raise UntranslatedError(f"abs of {operand.kind}")
    value, builder = operand.value, operations.builder
    zero = ir.Constant(value.type, 0)
    is_negative = builder.icmp_signed("<", value, zero)
    return Typed(builder.select(is_negative, builder.sub(zero, value), value), operand.kind)


def _unary(name: str) -> Emit:
    """Returns the emitter of a function of LLVM on a float."""

    def emit(operations: Operations, operand: Typed) -> Typed:
        if operand.kind not in FLOATS:
            raise UntranslatedError(f"{name} of {operand.kind}")
        value = operand.value
        shape = ir.FunctionType(value.type, [value.type])
        full_name = f"llvm.{name}.{'f32' if operand.kind == 'float32' else 'f64'}"
        function = declared(operations.builder.module, shape, full_name)
        return Typed(operations.builder.call(function, [value]), operand.kind)

    return emit


def _copysign(operations: Operations, magnitude: Typed, sign: Typed) -> Typed:
    kind = operations.common_kind([magnitude.kind, sign.kind])
    if kind not in FLOATS:
        raise UntranslatedError(f"copysign of {magnitude.kind}")
    values = [operations.cast(operand, kind) for operand in (magnitude, sign)]
    shape = ir.FunctionType(values[0].type, [value.type for value in values])
    full_name = f"llvm.copysign.{'f32' if kind == 'float32' else 'f64'}"
    function = declared(operations.builder.module, shape, full_name)
    return Typed(operations.builder.call(function, values), kind)


def _place(operations: Operations, pointer: Typed, index: Typed) -> Any:
    if not is_pointer(pointer.kind):
        raise UntranslatedError(f"an element of {pointer.kind}")
    return operations.builder.gep(pointer.value, [operations.cast(index, INDEX)])


def _load(operations: Operations, pointer: Typed, index: Typed) -> Typed:
    value = operations.builder.load(_place(operations, pointer, index))
    kind = element_of(pointer.kind)
    if kind == BOOLEAN:
        value = operations.builder.trunc(value, ir.IntType(1))
    return Typed(value, kind)


def _store(operations: Operations, pointer: Typed, index: Typed, operand: Typed) -> Typed:
    place = _place(operations, pointer, index)
    value = operations.cast(operand, element_of(pointer.kind))
    if value.type == ir.IntType(1):
        value = operations.builder.zext(value, ir.IntType(8))
    operations.builder.store(value, place)
    return operations.nothing()


EMITTERS: dict[Any, Emit] = {
    operator.add: _arithmetic("add"),
    operator.sub: _arithmetic("sub"),
    operator.mul: _arithmetic("mul"),
    operator.truediv: _quotient,
    operator.floordiv: _division(is_quotient=True),
    operator.mod: _division(is_quotient=False),
    operator.and_: _bitwise("and_"),
    operator.or_: _bitwise("or_"),
    operator.xor: _bitwise("xor"),
    operator.lshift: _shift("shl", "shl"),
    operator.rshift: _shift("ashr", "lshr"),
    operator.lt: _comparison("<"),
    operator.le: _comparison("<="),
    operator.gt: _comparison(">"),
    operator.ge: _comparison(">="),
    operator.eq: _comparison("=="),
    operator.ne: _comparison("!="),
    operator.neg: _negative,
    operator.invert: _inverse,
    operator.not_: _not,
    operator.getitem: _load,
    operator.setitem: _store,
    abs: _magnitude,
    math.copysign: _copysign,
    math.sqrt: _unary("sqrt"),
    np.sqrt: _unary("sqrt"),
    np.floor: _unary("floor"),
    np.ceil: _unary("ceil"),
    np.trunc: _unary("trunc"),
    np.rint: _unary("rint"),
}

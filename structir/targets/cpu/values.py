"""Translation of expressions to LLVM IR."""

from __future__ import annotations

import ast
import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from structir.targets.cpu.inlined import Inlined
from structir.targets.cpu.operations import Operations, Typed, UntranslatedError

BINARY: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
BUILT_IN: dict[str, Any] = {f.__name__: f for f in (abs, bool, float, int)}
NUMBERS = (int, float, np.generic)
UNARY: dict[type, Any] = {
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
ARITHMETIC: tuple[type[ast.AST], ...] = (ast.Name, ast.Constant, ast.Compare, ast.BinOp)
ARITHMETIC += (ast.UnaryOp, ast.operator, ast.cmpop, ast.unaryop, ast.expr_context)


class Values(ABC):
    """The scopes of a function, and the translation of its expressions."""

    def __init__(self, operations: Operations, function: Inlined) -> None:
        self.operations, self.names = operations, function.names
        self.builder = operations.builder
        self.reassigned = {name for name, count in function.assigned.items() if count > 1}
        self.scopes: list[dict[str, Typed]] = [{}]  # of names that are assigned once
        self.slots: dict[str, Typed] = {}  # of the other names
        self.type_names: dict[str, Any] = {}  # names of types

    @abstractmethod
    def called(self, function: Any, args: Sequence[Typed]) -> Typed:
        """Translates a call."""

    def value(self, expr: ast.expr) -> Typed:
        """Translates an expression; raises UntranslatedError if it is not supported."""
        match expr:
            case ast.Name(name):
                return self.variable(name)
            case ast.Constant(bool() | int() | float() as value):
                return self.operations.constant(value)
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
                return self.operations.constant(-value)
            case ast.UnaryOp(op, operand):
                return self.operations.applied(operator_of(op), (self.value(operand),))
            case ast.BinOp(left, op, right) | ast.Compare(left, [op], [right]):
                function = BINARY.get(type(op))
                if function is not None:
                    return self.operations.applied(function, (self.value(left), self.value(right)))
            case ast.Compare(left, [_, _, *_] as ops, rights) if _is_effortless(expr):
                sides = zip([left, *rights], ops, rights, strict=False)
                each = [ast.Compare(one, [op], [other]) for one, op, other in sides]
                return self._short_circuit(False, each[0], each[1:])
            case ast.Subscript(ast.Name(name), index) if self.is_table(name):
                return self.operations.element(self.names[name], self.value(index))
            case ast.Subscript(pointer, index) if not isinstance(index, ast.Slice):
                return self.operations.applied(operator.getitem, self.place(pointer, index))
            case ast.Call(ast.Name("min" | "max" as name), args, []):
                return self._extreme(name, [self.value(a) for a in args])
            case ast.Call(ast.Name("len"), [counted], []):
                return self.operations.constant(len(self.fixed(counted)))
            case ast.Call(function, args, []):
                return self.called(self.fixed(function), [self.value(a) for a in args])
            case ast.Attribute():
                return self.operations.constant(self.fixed(expr))
            case ast.Tuple(fields):
                return self.operations.together([v for f in fields for v in self._fields(f)])
            case ast.BoolOp(op, [left, *rest]):
                return self._short_circuit(isinstance(op, ast.Or), left, rest)
            case ast.IfExp(test, true, false):
                return self._select(self.value(test), (true, false))
        raise UntranslatedError(ast.unparse(expr))

    def _fields(self, field: ast.expr) -> list[Typed]:
        """Translates an element of a tuple display; a starred one has several fields."""
        if isinstance(field, ast.Starred):
            return self.operations.fields(self.value(field.value))
        return [self.value(field)]

    def place(self, pointer: ast.expr, index: ast.expr) -> tuple[Typed, Typed]:
        """Returns a pointer and an index.

        `pointer[outer + inner]` becomes an advanced pointer and `inner`, so that all accesses in an
        inner loop share an index.
        """
        base = self.value(pointer)
        while self.operations.is_pointer(base.kind) and _is_sum(index):
            first = self.value(index.left)  # type: ignore[attr-defined]
            if first.kind != self.operations.index:
                break
            base = Typed(self.builder.gep(base.value, [first.value]), base.kind)
            index = index.right  # type: ignore[attr-defined]
        return base, self.value(index)

    def is_table(self, name: str) -> bool:
        """Whether a name is that of a constant array."""
        is_variable = any(name in scope for scope in self.scopes) or name in self.slots
        return not is_variable and isinstance(self.names.get(name), np.ndarray)

    def variable(self, name: str) -> Typed:
        """Returns the value of a name."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        slot = self.slots.get(name)
        if slot is not None:
            return Typed(self.builder.load(slot.value), slot.kind)
        value = self.names.get(name)
        if name in self.reassigned or not isinstance(value, NUMBERS):
            raise UntranslatedError(f"{name}: expected a variable or a number")
        return self.operations.constant(value)

    def fixed(self, expr: ast.expr) -> Any:
        """Evaluates a constant expression: a function, a type, or a field of a table."""
        match expr:
            case ast.Name(name) if name in self.type_names:
                return self.type_names[name]
            case ast.Name(name) if name in BUILT_IN and name not in self.names:
                return BUILT_IN[name]
            case ast.Name(name) if name in self.names:
                return self.names[name]
            case ast.Attribute(of, name):
                return getattr(self.fixed(of), name)
            case ast.Call(ast.Name("type"), [of], []):
                return getattr(np, str(self.value(of).kind))
        raise UntranslatedError(ast.unparse(expr))

    def _extreme(self, name: str, given: Sequence[Typed]) -> Typed:
        """Emits the minimum or maximum of some indices."""
        if any(g.kind != self.operations.index for g in given):
            raise UntranslatedError(f"{name} of {[g.kind for g in given]}")
        extreme = given[0].value
        for other in given[1:]:
            better = self.builder.icmp_signed("<" if name == "min" else ">", other.value, extreme)
            extreme = self.builder.select(better, other.value, extreme)
        return Typed(extreme, self.operations.index)

    def _short_circuit(self, wanted: bool, left: ast.expr, rest: Sequence[ast.expr]) -> Typed:
        """Emits `and`, or `or` if `wanted`; operands with side effects or cost are
        short-circuited."""
        operand = self.value(left)
        while operand.number is not None and rest:
            if bool(operand.number) == wanted:
                return operand
            operand, rest = self.value(rest[0]), rest[1:]
        if not rest:
            return Typed(self.operations.truth(operand), self.operations.boolean, operand.number)
        first = self.operations.truth(operand)
        for right in rest:
            if _is_effortless(right):
                join = self.builder.or_ if wanted else self.builder.and_
                first = join(first, self.operations.truth(self.value(right)))
                continue
            here, asked, after = self.builder.block, *self._blocks(2)
            self.builder.cbranch(first, *((after, asked) if wanted else (asked, after)))
            self.builder.position_at_end(asked)
            second = self.operations.truth(self.value(right))
            first = self._merge(after, [(first, here), (second, self.builder.block)])
        return Typed(first, self.operations.boolean)

    def _select(self, test: Typed, sides: tuple[ast.expr, ast.expr]) -> Typed:
        """Emits a conditional expression: a select of cheap operands, else branches; of one whose
        condition is constant, only the operand that is selected."""
        if test.number is not None:
            return self.value(sides[0] if test.number else sides[1])
        condition, operations = self.operations.truth(test), self.operations
        if all(_is_effortless(side) for side in sides):
            values = [self.value(side) for side in sides]
            kind = operations.common_kind([v.kind for v in values])
            casts = [operations.cast(v, kind) for v in values]
            return Typed(self.builder.select(condition, *casts), kind)
        blocks, after = self._blocks(2), self.builder.append_basic_block()
        self.builder.cbranch(condition, *blocks)
        results = []
        for side, block in zip(sides, blocks, strict=True):
            self.builder.position_at_end(block)
            results.append((self.value(side), self.builder.block))
        kind = operations.common_kind([value.kind for value, _ in results])
        ends = []
        for value, block in results:
            self.builder.position_at_end(block)
            ends.append((operations.cast(value, kind), block))
        return Typed(self._merge(after, ends), kind)

    def _merge(self, after: Any, ends: Sequence[tuple[Any, Any]]) -> Any:
        """Branches from open blocks to `after`; returns the phi of their values."""
        for _, block in ends:
            if not block.is_terminated:
                self.builder.position_at_end(block)
                self.builder.branch(after)
        self.builder.position_at_end(after)
        joined = self.builder.phi(ends[0][0].type)
        for value, block in ends:
            joined.add_incoming(value, block)
        return joined

    def _blocks(self, count: int) -> list[Any]:
        return [self.builder.append_basic_block() for _ in range(count)]


def operator_of(op: ast.operator | ast.unaryop) -> Any:
    """Returns the function of an operator; raises UntranslatedError if there is none."""
    function = BINARY.get(type(op)) or UNARY.get(type(op))
    if function is None:
        raise UntranslatedError(f"the operator {type(op).__name__}")
    return function


def _is_sum(index: ast.expr) -> bool:
    return isinstance(index, ast.BinOp) and isinstance(index.op, ast.Add)


def _is_effortless(expr: ast.AST) -> bool:
    """Whether an expression has only arithmetic on names, sizes and constants; no divisions."""
    match expr:
        case ast.Subscript(ast.Attribute(ast.Name(), "shape"), ast.Constant()):
            return True
    parts = list(ast.iter_child_nodes(expr))
    return (
        isinstance(expr, ARITHMETIC)
        and not isinstance(expr, ast.Div | ast.FloorDiv | ast.Mod)
        and all(map(_is_effortless, parts))
    )

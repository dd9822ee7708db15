"""The text of a kernel in LLVM's form, statement by statement, by the operators that numba has.

numba's compiler reads bytecode, brings it into a form where each name is assigned once, and infers
the types of all names before it writes anything. Our texts say all this as they stand: what comes
first comes first, and a name has one type. A text that says more is left to numba's compiler.
"""

from __future__ import annotations

import ast
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from numba import types

from structir.backend.cpu.operations import Operations, Typed, UntranslatedError

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
UNARY: dict[type, Any] = {
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
ARITHMETIC: tuple[type[ast.AST], ...] = (ast.Name, ast.Constant, ast.Compare, ast.BinOp)
ARITHMETIC += (ast.UnaryOp, ast.operator, ast.cmpop, ast.unaryop, ast.expr_context)


class Translation:
    """One function on its way: the values of names, as far as the text has been read."""

    def __init__(
        self, operations: Operations, names: Mapping[str, Any], body: Sequence[ast.stmt]
    ) -> None:
        self.operations, self.names = operations, names
        self.builder = operations.builder
        self.many = {name for name, count in _assignments(body).items() if count > 1}
        self.scopes: list[dict[str, Typed]] = [{}]  # of names that are assigned once
        self.slots: dict[str, Typed] = {}  # where the others are kept
        self.loops: list[tuple[Any, Any]] = []  # where `continue` and `break` go

    # statements

    def block(self, statements: Iterable[ast.stmt]) -> None:
        """Statements whose names are theirs alone."""
        self.scopes.append({})
        for statement in statements:
            if self.builder.block.is_terminated:
                break
            known = STATEMENTS.get(type(statement))
            if known is None:
                raise UntranslatedError(type(statement).__name__)
            known(self, statement)
        self.scopes.pop()

    def assign(self, statement: ast.Assign) -> None:
        """`name = value` or `pointer[index] = value`."""
        (to,) = statement.targets
        self._store(to, self.value(statement.value))

    def augment(self, statement: ast.AugAssign) -> None:
        """`name += value` and its like."""
        before = self.value(ast.parse(ast.unparse(statement.target), mode="eval").body)
        args = (before, self.value(statement.value))
        self._store(statement.target, self.operations.applied(BINARY[type(statement.op)], args))

    def _store(self, to: ast.expr, given: Typed) -> None:
        match to:
            case ast.Name(name):
                self.named(name, given)
            case ast.Subscript(pointer, index):
                self.operations.applied(operator.setitem, (*self._place(pointer, index), given))
            case _:
                raise UntranslatedError(ast.unparse(to))

    def named(self, name: str, given: Typed) -> None:
        """Give a name its value."""
        if name not in self.many:
            self.scopes[-1][name] = given
            return
        slot = self.slots.get(name)
        if slot is None:
            slot = self.slots[name] = Typed(self.operations.slot(given.kind), given.kind)
        if slot.kind != given.kind:
            raise UntranslatedError(f"{name} is {slot.kind} and {given.kind}")
        self.builder.store(given.value, slot.value)

    def expression(self, statement: ast.Expr) -> None:
        """A call that is made for what it does."""
        self.value(statement.value)

    def branch(self, statement: ast.If) -> None:
        """`if`, with or without `else`."""
        test = self.operations.truth(self.value(statement.test))
        sides = [statement.body, statement.orelse]
        blocks = [self.builder.append_basic_block() for _ in sides]
        after = self.builder.append_basic_block()
        self.builder.cbranch(test, *blocks)
        for side, block in zip(sides, blocks, strict=True):
            self.builder.position_at_end(block)
            self.block(side)
            self._go(after)
        self.builder.position_at_end(after)

    def count(self, loop: ast.For) -> None:
        """A loop over a range, as one that tests at its end."""
        low, high, step, goes_up = self._range(loop.iter)
        builder, inside = self.builder, "<" if goes_up else ">"
        before, body, following, after = self._blocks(4)
        builder.branch(before)
        builder.position_at_end(before)
        builder.cbranch(builder.icmp_signed(inside, low, high), body, after)
        builder.position_at_end(body)
        index = builder.phi(low.type)
        index.add_incoming(low, before)
        self.scopes.append({})
        self.named(_name(loop.target), Typed(index, types.int64))
        self._looped(loop, following, after)
        self.scopes.pop()
        builder.position_at_end(following)
        stepped = builder.add(index, step, flags=("nsw",))
        index.add_incoming(stepped, following)
        builder.cbranch(builder.icmp_signed(inside, stepped, high), body, after)
        builder.position_at_end(after)

    def repeat(self, loop: ast.While) -> None:
        """`while`."""
        test, body, after = self._blocks(3)
        self.builder.branch(test)
        self.builder.position_at_end(test)
        holds = self.operations.truth(self.value(loop.test))
        self.builder.cbranch(holds, body, after)
        self.builder.position_at_end(body)
        self._looped(loop, test, after)
        self.builder.position_at_end(after)

    def _looped(self, loop: ast.For | ast.While, following: Any, after: Any) -> None:
        if loop.orelse:
            raise UntranslatedError("else after a loop")
        self.loops.append((following, after))
        self.block(loop.body)
        self.loops.pop()
        self._go(following)

    def _range(self, iterated: ast.expr) -> list[Any]:
        match iterated:
            case ast.Call(ast.Name("range"), [ast.expr(), *_] as args, []) if len(args) <= 3:
                given = [self.value(a) for a in args]
                zero, one = self.operations.constant(0), self.operations.constant(1)
                low_high_step = [zero, given[0], one] if len(given) == 1 else [*given, one][:3]
                step = low_high_step[2].number
                whole = all(g.kind == types.int64 for g in low_high_step)
                if whole and step:
                    return [*[g.value for g in low_high_step], step > 0]
        raise UntranslatedError(ast.unparse(iterated))

    def leave(self, _: ast.Break) -> None:
        """`break`."""
        self.builder.branch(self.loops[-1][1])

    def go_on(self, _: ast.Continue) -> None:
        """`continue`."""
        self.builder.branch(self.loops[-1][0])

    def nothing(self, _: ast.Pass) -> None:
        """`pass`."""

    def _go(self, block: Any) -> None:
        if not self.builder.block.is_terminated:
            self.builder.branch(block)

    def _blocks(self, count: int) -> list[Any]:
        return [self.builder.append_basic_block() for _ in range(count)]

    # expressions

    def value(self, expr: ast.expr) -> Typed:
        """What an expression gives."""
        match expr:
            case ast.Name(name):
                return self._variable(name)
            case ast.Constant(bool() | int() | float() as value):
                return self.operations.constant(value)
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
                return self.operations.constant(-value)
            case ast.UnaryOp(op, operand):
                return self.operations.applied(UNARY[type(op)], (self.value(operand),))
            case ast.BinOp(left, op, right) | ast.Compare(left, [op], [right]):
                function = BINARY.get(type(op))
                if function is not None:
                    return self.operations.applied(function, (self.value(left), self.value(right)))
            case ast.Subscript(pointer, index) if not isinstance(index, ast.Slice):
                return self.operations.applied(operator.getitem, self._place(pointer, index))
            case ast.Call(ast.Name("min" | "max" as name), args, []):
                return self._extreme(name, [self.value(a) for a in args])
            case ast.Call(ast.Name(name), args, []) if name == "abs" or name in self.names:
                function = self.names.get(name, abs)
                return self.operations.applied(function, [self.value(a) for a in args])
            case ast.Tuple(fields):
                return self.operations.together([self.value(f) for f in fields])
            case ast.BoolOp(op, [left, *rest]):
                return self._either(isinstance(op, ast.Or), left, rest)
            case ast.IfExp(test, true, false):
                return self._chosen(self.value(test), (true, false))
        raise UntranslatedError(ast.unparse(expr))

    def _place(self, pointer: ast.expr, index: ast.expr) -> tuple[Typed, Typed]:
        """A pointer and an index. Of `pointer[outer + inner]` the first part moves the pointer:
        where a loop goes on inside, it starts from there, and all its accesses share an index."""
        base = self.value(pointer)
        while isinstance(base.kind, types.CPointer) and _is_sum(index):
            first = self.value(index.left)  # type: ignore[attr-defined]
            if first.kind != types.int64:
                break
            base = Typed(self.builder.gep(base.value, [first.value]), base.kind)
            index = index.right  # type: ignore[attr-defined]
        return base, self.value(index)

    def _variable(self, name: str) -> Typed:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        slot = self.slots.get(name)
        if slot is not None:
            return Typed(self.builder.load(slot.value), slot.kind)
        value = self.names.get(name)
        if name in self.many or not isinstance(value, int | float):
            raise UntranslatedError(f"{name}: no value that is known here")
        return self.operations.constant(value)

    def _extreme(self, name: str, given: Sequence[Typed]) -> Typed:
        """The least or greatest of some indices."""
        if any(g.kind != types.int64 for g in given):
            raise UntranslatedError(f"{name} of {[g.kind for g in given]}")
        found = given[0].value
        for other in given[1:]:
            better = self.builder.icmp_signed("<" if name == "min" else ">", other.value, found)
            found = self.builder.select(better, other.value, found)
        return Typed(found, types.int64)

    def _either(self, wanted: bool, left: ast.expr, rest: Sequence[ast.expr]) -> Typed:
        """`and`, or `or` if `wanted`: the rest is asked only where the first does not decide."""
        first = self.operations.truth(self.value(left))
        for right in rest:
            if _is_effortless(right):
                join = self.builder.or_ if wanted else self.builder.and_
                first = join(first, self.operations.truth(self.value(right)))
                continue
            here, asked, after = self.builder.block, *self._blocks(2)
            self.builder.cbranch(first, *((after, asked) if wanted else (asked, after)))
            self.builder.position_at_end(asked)
            second = self.operations.truth(self.value(right))
            first = self._joined(after, [(first, here), (second, self.builder.block)])
        return Typed(first, types.boolean)

    def _chosen(self, test: Typed, sides: tuple[ast.expr, ast.expr]) -> Typed:
        """One of two values; what takes an effort is worked out only where it is wanted."""
        condition, operations = self.operations.truth(test), self.operations
        if all(_is_effortless(side) for side in sides):
            values = [self.value(side) for side in sides]
            kind = operations.common_kind([v.kind for v in values])
            casts = [operations.cast(v, kind) for v in values]
            return Typed(self.builder.select(condition, *casts), kind)
        blocks, after = self._blocks(2), self.builder.append_basic_block()
        self.builder.cbranch(condition, *blocks)
        found = []
        for side, block in zip(sides, blocks, strict=True):
            self.builder.position_at_end(block)
            found.append((self.value(side), self.builder.block))
        kind = operations.common_kind([value.kind for value, _ in found])
        ends = []
        for value, block in found:
            self.builder.position_at_end(block)
            ends.append((operations.cast(value, kind), block))
        return Typed(self._joined(after, ends), kind)

    def _joined(self, after: Any, ends: Sequence[tuple[Any, Any]]) -> Any:
        """The value with which control comes to a block, from those blocks that are still open."""
        for _, block in ends:
            if not block.is_terminated:
                self.builder.position_at_end(block)
                self.builder.branch(after)
        self.builder.position_at_end(after)
        joined = self.builder.phi(ends[0][0].type)
        for value, block in ends:
            joined.add_incoming(value, block)
        return joined


STATEMENTS: dict[type, Callable[[Translation, Any], None]] = {
    ast.Assign: Translation.assign,
    ast.AugAssign: Translation.augment,
    ast.Break: Translation.leave,
    ast.Continue: Translation.go_on,
    ast.Expr: Translation.expression,
    ast.For: Translation.count,
    ast.If: Translation.branch,
    ast.Pass: Translation.nothing,
    ast.While: Translation.repeat,
}


def _is_sum(index: ast.expr) -> bool:
    return isinstance(index, ast.BinOp) and isinstance(index.op, ast.Add)


def _is_effortless(expr: ast.expr) -> bool:
    """Whether an expression is nothing but arithmetic on names, without a division."""
    return all(
        isinstance(n, ARITHMETIC) and not isinstance(n, ast.Div | ast.FloorDiv | ast.Mod)
        for n in ast.walk(expr)
    )


def _assignments(body: Sequence[ast.stmt]) -> Counter[str]:
    """How often each name is assigned."""
    nodes = [n for statement in body for n in ast.walk(statement)]
    return Counter(n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def _name(target: ast.expr) -> str:
    if not isinstance(target, ast.Name):
        raise UntranslatedError(ast.unparse(target))
    return target.id

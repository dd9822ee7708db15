"""Translates Python functions to LLVM IR in one pass over their statements.

The functions of this package need no type inference: names are assigned before use, and each has
one kind. Others are rejected with UntranslatedError.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from structir.targets.cpu.inlined import Inlined, parse_function
from structir.targets.cpu.operations import Operations, Typed, UntranslatedError
from structir.targets.cpu.values import Values, operator_of


class Translation(Values):
    """Translates the statements of one function."""

    def __init__(self, operations: Operations, function: Inlined) -> None:
        super().__init__(operations, function)
        self.loops: list[tuple[Any, Any]] = []  # the targets of `continue` and `break`
        self.break_targets: list[Any] = []  # the blocks that some `break` jumps to
        self.end: Any = None  # the target of `return` in inlined functions
        self.results: list[tuple[Typed, Any]] = []  # the returned values and their blocks

    def block(self, statements: Iterable[ast.stmt]) -> None:
        """Translates statements in a new scope."""
        self.scopes.append({})
        for statement in statements:
            if self.builder.block.is_terminated:
                break
            self.statement(statement)
        self.scopes.pop()

    def statement(self, statement: ast.stmt) -> None:
        """Translates a statement; raises UntranslatedError if it is not supported."""
        translate = STATEMENTS.get(type(statement))
        if translate is None:
            raise UntranslatedError(type(statement).__name__)
        translate(self, statement)

    def assign(self, statement: ast.Assign) -> None:
        """Translates assignments to names, elements and tuples of these."""
        to, *others = statement.targets
        if others:
            raise UntranslatedError(ast.unparse(statement))
        match to, statement.value:
            case ast.Name(name), ast.Call(ast.Name("type"), [_], []):
                self.type_names[name] = self.fixed(statement.value)
            case ast.Tuple(several), ast.Tuple(values) if len(several) == len(values):
                self._store_each(several, [self.value(v) for v in values])
            case ast.Tuple(several), value:
                self._store_each(several, self.operations.fields(self.value(value)))
            case _:
                self.store(to, self.value(statement.value))

    def annotated_assignment(self, statement: ast.AnnAssign) -> None:
        """Translates `name: type = value`; the type is ignored."""
        if statement.value is not None:
            self.store(statement.target, self.value(statement.value))

    def augmented_assignment(self, statement: ast.AugAssign) -> None:
        """Translates augmented assignments."""
        before = self.value(statement.target)
        args = (before, self.value(statement.value))
        self.store(statement.target, self.operations.applied(operator_of(statement.op), args))

    def _store_each(self, several: Iterable[ast.expr], given: Iterable[Typed]) -> None:
        for to, value in zip(several, given, strict=True):
            self.store(to, value)

    def store(self, to: ast.expr, given: Typed) -> None:
        """Assigns to a name or an element."""
        match to:
            case ast.Name(name):
                self.named(name, given)
            case ast.Subscript(pointer, index):
                self.operations.applied(operator.setitem, (*self.place(pointer, index), given))
            case _:
                raise UntranslatedError(ast.unparse(to))

    def named(self, name: str, given: Typed) -> None:
        """Assigns to a name: an SSA value, or a stack slot if it is assigned more than once."""
        if name not in self.reassigned:
            self.scopes[-1][name] = given
            return
        slot = self.slots.get(name)
        if slot is None:
            slot = self.slots[name] = Typed(self.operations.slot(given.kind), given.kind)
        if slot.kind != given.kind:
            raise UntranslatedError(f"{name} has two types: {slot.kind} and {given.kind}")
        self.builder.store(given.value, slot.value)

    def expression_statement(self, statement: ast.Expr) -> None:
        """Translates an expression statement; ignores docstrings."""
        if not isinstance(statement.value, ast.Constant):
            self.value(statement.value)

    def if_statement(self, statement: ast.If) -> None:
        """Translates `if`; of one whose condition is constant, only the branch that is taken."""
        condition = self.value(statement.test)
        sides = [statement.body, statement.orelse]
        if condition.number is not None:
            for inner in sides[0] if condition.number else sides[1]:
                if not self.builder.block.is_terminated:
                    self.statement(inner)
            return
        test = self.operations.truth(condition)
        blocks = [self.builder.append_basic_block() for _ in sides]
        after = self.builder.append_basic_block()
        self.builder.cbranch(test, *blocks)
        is_open = False
        for side, block in zip(sides, blocks, strict=True):
            self.builder.position_at_end(block)
            self.block(side)
            is_open = is_open or not self.builder.block.is_terminated
            self._branch_to(after)
        self.builder.position_at_end(after)
        if not is_open:
            self.builder.unreachable()

    def for_loop(self, loop: ast.For) -> None:
        """Translates `for` to a rotated loop over a range."""
        low, high, step = self._range(loop.iter)
        builder = self.builder
        before, body, following, after = self._blocks(4)
        builder.branch(before)
        builder.position_at_end(before)
        builder.cbranch(self._in_range(low.value, high, step), body, after)
        builder.position_at_end(body)
        index = builder.phi(low.value.type)
        index.add_incoming(low.value, before)
        self.scopes.append({})
        self.named(_name(loop.target), Typed(index, self.operations.index))
        self._loop_body(loop, following, after)
        self.scopes.pop()
        builder.position_at_end(following)
        stepped = builder.add(index, step.value, flags=("nsw",))
        index.add_incoming(stepped, following)
        builder.cbranch(self._in_range(stepped, high, step), body, after)
        builder.position_at_end(after)

    def _in_range(self, index: Any, high: Typed, step: Typed) -> Any:
        """Emits the test whether an index is in a range; the sign of the step may be unknown."""
        below, above = [self.builder.icmp_signed(c, index, high.value) for c in "<>"]
        if step.number is not None:
            return below if step.number > 0 else above
        zero = self.operations.constant(0).value
        return self.builder.select(self.builder.icmp_signed(">", step.value, zero), below, above)

    def while_loop(self, loop: ast.While) -> None:
        """Translates `while`."""
        test, body, after = self._blocks(3)
        self.builder.branch(test)
        self.builder.position_at_end(test)
        endless = isinstance(loop.test, ast.Constant) and loop.test.value is True
        if endless:
            self.builder.branch(body)
        else:
            holds = self.operations.truth(self.value(loop.test))
            self.builder.cbranch(holds, body, after)
        self.builder.position_at_end(body)
        self._loop_body(loop, test, after)
        self.builder.position_at_end(after)
        if endless and after not in self.break_targets:
            self.builder.unreachable()

    def _loop_body(self, loop: ast.For | ast.While, following: Any, after: Any) -> None:
        if loop.orelse:
            raise UntranslatedError("`else` of a loop")
        self.loops.append((following, after))
        self.block(loop.body)
        self.loops.pop()
        self._branch_to(following)

    def _range(self, iterated: ast.expr) -> list[Typed]:
        match iterated:
            case ast.Call(ast.Name("range"), [ast.expr(), *_] as args, []) if len(args) <= 3:
                given = [self.index_of(self.value(a)) for a in args]
                zero, one = self.operations.constant(0), self.operations.constant(1)
                low_high_step = [zero, given[0], one] if len(given) == 1 else [*given, one][:3]
                if (
                    all(g.kind == self.operations.index for g in low_high_step)
                    and low_high_step[2].number != 0
                ):
                    return low_high_step
        raise UntranslatedError(ast.unparse(iterated))

    def index_of(self, given: Typed) -> Typed:
        """Returns an end of a range."""
        return given

    def break_statement(self, _: ast.Break) -> None:
        """Translates `break`."""
        self.break_targets.append(self.loops[-1][1])
        self.builder.branch(self.loops[-1][1])

    def continue_statement(self, _: ast.Continue) -> None:
        """Translates `continue`."""
        self.builder.branch(self.loops[-1][0])

    def pass_statement(self, _: ast.Pass) -> None:
        """Translates `pass`."""

    def return_statement(self, statement: ast.Return) -> None:
        """Translates `return` in an inlined function."""
        if self.end is None:
            raise UntranslatedError("return")
        value = (
            self.operations.nothing() if statement.value is None else self.value(statement.value)
        )
        self.results.append((value, self.builder.block))
        self.builder.branch(self.end)

    def _branch_to(self, block: Any) -> None:
        if not self.builder.block.is_terminated:
            self.builder.branch(block)

    def called(self, function: Any, args: Sequence[Typed]) -> Typed:
        """Translates a call: inlines the function if it is supported."""
        taken = parse_function(function)
        if taken is None or len(taken.params) != len(args):
            return self.operations.applied(function, args)
        with self.operations.contracted():
            return type(self)(self.operations, taken).inline(taken, args)

    def inline(self, function: Inlined, args: Sequence[Typed]) -> Typed:
        """Inlines a function; returns its result."""
        self.end = self.builder.append_basic_block()
        for name, given in zip(function.params, args, strict=True):
            self.named(name, given)
        self.block(function.body)
        if not self.builder.block.is_terminated:
            self.results.append((self.operations.nothing(), self.builder.block))
            self.builder.branch(self.end)
        self.builder.position_at_end(self.end)
        if not self.results:  # an infinite loop: the following code is unreachable
            return self.operations.nothing()
        kinds = {value.kind for value, _ in self.results}
        if len(kinds) != 1:
            raise UntranslatedError(f"several return types: {kinds}")
        (first, _), *others = self.results
        if not others or first.kind == self.operations.nothing_kind:
            return first
        return self.merged(self.end, self.results)

    def merged(self, end: Any, results: Sequence[tuple[Typed, Any]]) -> Typed:
        """Returns the value that the block `end` has, of values of one kind and their blocks."""
        return Typed(self._merge(end, [(v.value, b) for v, b in results]), results[0][0].kind)


STATEMENTS: dict[type, Callable[[Translation, Any], None]] = {
    ast.AnnAssign: Translation.annotated_assignment,
    ast.Assign: Translation.assign,
    ast.AugAssign: Translation.augmented_assignment,
    ast.Break: Translation.break_statement,
    ast.Continue: Translation.continue_statement,
    ast.Expr: Translation.expression_statement,
    ast.For: Translation.for_loop,
    ast.If: Translation.if_statement,
    ast.Pass: Translation.pass_statement,
    ast.Return: Translation.return_statement,
    ast.While: Translation.while_loop,
}


def _name(target: ast.expr) -> str:
    if not isinstance(target, ast.Name):
        raise UntranslatedError(ast.unparse(target))
    return target.id

"""A function of a thread on its way into LLVM's form: as on the CPU, with registers, memory that a
block shares, tables, and arrays seen through pointers."""

from __future__ import annotations

import ast
import operator
from collections.abc import Sequence
from typing import Any, TypeGuard

import attrs
import numpy as np
from llvmlite import ir
from numba import types
from numba.np.numpy_support import from_dtype

from structir.backend.cpu.inlined import Inlined, plain
from structir.backend.cpu.operations import Operations, Typed, UntranslatedError
from structir.backend.cpu.translation import Translation
from structir.backend.cuda.threads import SHARED_ARRAY, Register, Written

element_kind: Any = from_dtype
pointer_kind: Any = types.CPointer
SHARED, CONSTANT = 3, 4  # how LLVM numbers the memory of a block, and that of constants


@attrs.frozen(eq=False)
class View(Typed):
    """Elements behind a pointer, seen as an array of rows."""

    shape: tuple[Typed, ...] = ()


class DeviceOperations(Operations):
    """Operators and functions as the CPU has them; registers, and functions of threads."""

    def constant(self, value: Any) -> Typed:
        """A number that the text says, or one in a register."""
        if value is None:
            return self.nothing()
        return value.read(self) if isinstance(value, Register) else super().constant(value)

    def applied(self, function: Any, args: Sequence[Typed]) -> Typed:
        """A function on some values, written here."""
        if isinstance(function, Written):
            return function.write(self, args)
        if hasattr(function, "py_func"):
            raise UntranslatedError(f"{function} is compiled as a whole")
        return super().applied(function, args)


class DeviceTranslation(Translation):
    """One function on its way, for a thread of a GPU."""

    apart = False  # whether the rounds of a loop over lanes never meet

    def value(self, expr: ast.expr) -> Typed:
        """What an expression gives."""
        match expr:
            case ast.Constant(None):
                return self.operations.nothing()
            case ast.Compare(
                ast.Name(name), [ast.Is() | ast.IsNot() as same], [ast.Constant(None)]
            ):
                absent = self.variable(name).kind == types.none
                return self.operations.constant(absent is isinstance(same, ast.Is))
            case ast.Call(ast.Attribute() as callee, [ast.Constant(int(count)), ast.Name(dtype)]):
                if self.fixed(callee) is SHARED_ARRAY:
                    return self._shared(count, dtype)
            case ast.Call(ast.Name("array_at"), [pointer, ast.Tuple(sizes)]):
                base = self.value(pointer)
                return View(base.value, base.kind, shape=tuple([self.value(s) for s in sizes]))
            case ast.Call(ast.Name("len"), [ast.Name(name)]) if view := self._view(name):
                return view.shape[0]
            case ast.Attribute(ast.Name(name), "shape") if view := self._view(name):
                return self.operations.together(view.shape)
            case ast.Subscript(ast.Attribute(ast.Name(name), "shape"), ast.Constant(int(axis))) if (
                view := self._view(name)
            ):
                return view.shape[axis]
            case ast.Subscript(ast.Name(name), index) if view := self._view(name):
                return self._seen(view, index)
            case ast.Subscript(ast.Name(name), index) if self._is_table(name):
                return self._entry(self.names[name], self.value(index))
        return super().value(expr)

    def statement(self, statement: ast.stmt) -> None:
        """One statement; of a branch that is known to be taken, only what happens there."""
        match statement:
            case ast.If(ast.Compare(_, [ast.Is() | ast.IsNot()], _) as test):
                taken = statement.body if self.value(test).number else statement.orelse
                for inner in taken:
                    self.statement(inner)
            case ast.For(ast.Name("lane"), ast.Call(_, [ast.Constant(int(lanes))])) if self.apart:
                self._side_by_side(statement.body, lanes)
            case _:
                super().statement(statement)

    def _side_by_side(self, body: Sequence[ast.stmt], lanes: int) -> None:
        """Each statement for all lanes before the next one: accesses of neighbours become one."""
        everywhere, own = self.many, {n.id for s in body for n in ast.walk(s) if _is_target(n)}
        self.many = everywhere - own
        scopes = [{"lane": self.operations.constant(lane)} for lane in range(lanes)]
        for statement in body:
            for scope in scopes:
                self.scopes.append(scope)
                self.statement(statement)
                self.scopes.pop()
        self.many = everywhere

    def store(self, to: ast.expr, given: Typed) -> None:
        """Give a name, an element, or all elements of an array a value."""
        match to:
            case ast.Subscript(ast.Name(name), ast.Slice(None, None, None)) if view := self._view(
                name
            ):
                scope = {"every": Typed(view.value, view.kind), "filling": given}
                scope["whole"] = self._product(view.shape)
                self.scopes.append(scope)
                self.block(FILL)
                self.scopes.pop()
            case _:
                super().store(to, given)

    def place(self, pointer: ast.expr, index: ast.expr) -> tuple[Typed, Typed]:
        """A pointer and an index; of an element of an array, the pointer to it."""
        if isinstance(pointer, ast.Name) and (view := self._view(pointer.id)):
            return self._moved(view, index), self.operations.constant(0)
        return super().place(pointer, index)

    def called(self, function: Any, args: Sequence[Typed]) -> Typed:
        """A call: the function's own statements."""
        taken = function if isinstance(function, Inlined) else plain(function)
        if taken is None or len(taken.params) != len(args):
            return self.operations.applied(function, args)
        made = type(self)(self.operations, taken.names, taken.params, taken.body)
        with self.operations.contracted():
            return made.taken_in(taken, args)

    # ---- memory

    def _product(self, sizes: Sequence[Typed]) -> Typed:
        """How many elements there are."""
        whole = self.operations.constant(1)
        for size in sizes:
            whole = self.operations.applied(operator.mul, (whole, size))
        return whole

    def _view(self, name: str) -> View | None:
        """The array that a name stands for, if it is one."""
        found = [scope[name] for scope in self.scopes if name in scope]
        return found[-1] if found and isinstance(found[-1], View) else None

    def _seen(self, view: View, index: ast.expr) -> Typed:
        """An element of an array, or a part along its last axes."""
        moved = self._moved(view, index)
        if isinstance(moved, View):
            return moved
        return self.operations.applied(operator.getitem, (moved, self.operations.constant(0)))

    def _moved(self, view: View, index: ast.expr) -> Typed:
        entries = index.elts if isinstance(index, ast.Tuple) else [index]
        leading = [entry for entry in entries if not isinstance(entry, ast.Slice)]
        kept = view.shape[len(leading) :]
        if any(isinstance(e, ast.Slice) for e in entries[: len(leading)]):
            raise UntranslatedError(f"a part of an array: {ast.unparse(index)}")
        value = view.value
        for axis, entry in enumerate(leading):
            step = self._product(view.shape[axis + 1 :])
            at = Typed(self.operations.cast(self.value(entry), types.int64), types.int64)
            offset = self.operations.applied(operator.mul, (at, step))
            value = self.builder.gep(value, [offset.value])
        return View(value, view.kind, shape=kept) if kept else Typed(value, view.kind)

    def _is_table(self, name: str) -> bool:
        known = any(name in scope for scope in self.scopes) or name in self.slots
        return not known and isinstance(self.names.get(name), np.ndarray)

    def _shared(self, count: int, dtype: str) -> Typed:
        """Memory that the threads of a block share."""
        kind = getattr(types, dtype)
        held = ir.ArrayType(self.operations.context.get_value_type(kind), count)
        return self._held(held, kind, "shared", SHARED, ir.Undefined)

    def _entry(self, table: Any, index: Typed) -> Typed:
        """An entry of a table that the function knows."""
        kind = element_kind(table.dtype)
        element = self.operations.context.get_value_type(kind)
        numbers = [ir.Constant(element, number) for number in table.tolist()]
        held = ir.ArrayType(element, len(numbers))
        pointer = self._held(held, kind, "table", CONSTANT, numbers)
        return self.operations.applied(operator.getitem, (pointer, index))

    def _held(self, held: Any, kind: Any, name: str, space: int, contents: Any) -> Typed:
        """A pointer to memory that the module has."""
        module = self.builder.module
        memory = ir.GlobalVariable(module, held, module.get_unique_name(name), addrspace=space)
        memory.linkage, memory.align = "internal", 16
        memory.initializer = ir.Constant(held, contents)
        # a pointer of its space, not a general one: how it is aligned is seen through no cast
        return Typed(memory.bitcast(held.element.as_pointer(space)), pointer_kind(kind))


def _is_target(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


FILL = ast.parse("for at in range(whole):\n    every[at] = filling").body

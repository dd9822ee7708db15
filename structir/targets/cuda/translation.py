"""Translates a function of a GPU thread to LLVM IR: the CPU's translation, plus registers, shared
memory, arrays in registers, and tables."""

from __future__ import annotations

import ast
import operator
from collections.abc import Sequence
from math import gcd
from typing import Any, TypeGuard, TypeVar

import attrs
from llvmlite import ir
from numba import types
from numba.np.numpy_support import from_dtype

from structir.targets.cpu.array_translation import ArrayTranslation
from structir.targets.cpu.inlined import Inlined, parse_function
from structir.targets.cpu.operations import Typed, UntranslatedError
from structir.targets.cpu.values import BINARY
from structir.targets.cuda.numba_operations import NumbaOperations
from structir.targets.cuda.threads import (
    LOCAL_ARRAY,
    SHARED_ARRAY,
    UNROLLED,
    InlinedFunction,
    Register,
)

H = TypeVar("H", bound=Typed)
element_kind: Any = from_dtype
pointer_kind: Any = types.CPointer
WIDEST = 16  # bytes of one access of a thread
SHARED, CONSTANT = 3, 4  # LLVM's address spaces of shared and constant memory


@attrs.frozen(eq=False)
class Registers(Typed):
    """Elements in registers of a thread: each index is a constant of the source."""

    slots: tuple[Any, ...] = ()


class DeviceOperations(NumbaOperations):
    """Operators and functions of the CPU, plus registers and functions of threads."""

    def constant(self, value: Any) -> Typed:
        """Returns a constant of the source, or one in a register."""
        if value is None:
            return self.nothing()
        return value.read(self) if isinstance(value, Register) else super().constant(value)

    def applied(self, function: Any, args: Sequence[Typed]) -> Typed:
        """Applies a function, inlined."""
        if isinstance(function, InlinedFunction):
            return function.write(self, args)
        if hasattr(function, "py_func"):
            raise UntranslatedError(f"{function} is compiled as a whole")
        return super().applied(function, args)


class DeviceTranslation(ArrayTranslation):
    """Translates one function of a GPU thread."""

    operations: DeviceOperations
    apart = False  # whether the iterations of a loop over lanes are independent

    def value(self, expr: ast.expr) -> Typed:
        """Returns the value of an expression."""
        match expr:
            case ast.Call(ast.Attribute() as callee, [ast.Constant(int(count)), ast.Name(dtype)]):
                if self.fixed(callee) is SHARED_ARRAY:
                    return self._shared(count, dtype)
                if self.fixed(callee) is LOCAL_ARRAY:
                    return self._registers(count, dtype)
            case ast.Call(ast.Name("array_at"), [pointer, ast.Tuple(sizes)]):
                return self.dense(self.value(pointer), [self.value(s) for s in sizes])
            case ast.Subscript(ast.Name(name), index) if held := self._held_in(name, Registers):
                return Typed(self.builder.load(held.slots[self._number(index)]), held.kind)
            case ast.Subscript(ast.Name(name), index) if self.is_table(name):
                return self._entry(self.names[name], self.value(index))
        return super().value(expr)

    def statement(self, statement: ast.stmt) -> None:
        """Translates one statement."""
        match statement:
            case ast.For(ast.Name("lane"), ast.Call(_, [ast.Constant(int(lanes))])) if self.apart:
                self._side_by_side(statement.body, lanes)
            case ast.For(ast.Name(name), ast.Call(callee, [ast.Constant(int(count))])) if (
                self._is_unrolled(callee)
            ):
                for number in range(count):
                    self.scopes.append({name: self.operations.constant(number)})
                    self.block(statement.body)
                    self.scopes.pop()
            case ast.Assign(
                [ast.Subscript(to, ast.Slice() as there)], ast.Subscript(given, ast.Slice() as here)
            ):
                self._moved_together(to, there, given, here)
            case _:
                super().statement(statement)

    def _is_unrolled(self, callee: ast.expr) -> bool:
        return isinstance(callee, ast.Name) and self.names.get(callee.id) is UNROLLED

    def _side_by_side(self, body: Sequence[ast.stmt], lanes: int) -> None:
        """Executes each statement for all lanes before the next one, so that accesses of neighbours
        merge."""
        everywhere, own = (
            self.reassigned,
            {n.id for s in body for n in ast.walk(s) if _is_target(n)},
        )
        self.reassigned = everywhere - own
        scopes = [{"lane": self.operations.constant(lane)} for lane in range(lanes)]
        for statement in body:
            for scope in scopes:
                self.scopes.append(scope)
                self.statement(statement)
                self.scopes.pop()
        self.reassigned = everywhere

    def store(self, to: ast.expr, given: Typed) -> None:
        """Assigns to a name, an element, a register, or all elements of an array."""
        match to:
            case ast.Subscript(ast.Name(name), index) if held := self._held_in(name, Registers):
                value = self.operations.cast(given, held.kind)
                self.builder.store(value, held.slots[self._number(index)])
            case _:
                super().store(to, given)

    def called(self, function: Any, args: Sequence[Typed]) -> Typed:
        """Inlines the statements of a called function."""
        taken = function if isinstance(function, Inlined) else parse_function(function)
        if taken is None or len(taken.params) != len(args):
            return self.operations.applied(function, args)
        with self.operations.contracted():
            return type(self)(self.operations, taken).inline(taken, args)

    # ---- memory

    def _held_in(self, name: str, kind: type[H]) -> H | None:
        """Returns the value with a name, if it is of this class."""
        values = [scope[name] for scope in self.scopes if name in scope]
        return values[-1] if values and isinstance(values[-1], kind) else None

    def _number(self, index: ast.expr) -> int:
        """Returns a constant index, or one that follows from constants."""
        match index:
            case ast.BinOp(left, op, right) if type(op) in BINARY:
                return int(BINARY[type(op)](self._number(left), self._number(right)))
        known = self.value(index).number
        if known is None:
            raise UntranslatedError(f"a register is chosen by {ast.unparse(index)}")
        return known

    def _shared(self, count: int, dtype: str) -> Typed:
        """Returns memory that the threads of a block share."""
        kind = getattr(types, dtype)
        held = ir.ArrayType(self.operations.context.get_value_type(kind), count)
        return self._held(held, kind, "shared", SHARED, ir.Undefined)

    def _registers(self, count: int, dtype: str) -> Registers:
        """Returns elements in registers of the thread."""
        kind = getattr(types, dtype)
        slots = [self.operations.slot(kind) for _ in range(count)]
        return Registers(None, kind, slots=tuple(slots))

    def _moved_together(
        self, to: ast.expr, there: ast.Slice, given: ast.expr, here: ast.Slice
    ) -> None:
        """Copies contiguous elements to registers, or back, in the widest accesses. Their address
        must be a multiple of the access size."""
        stored = self._slots(given, here)
        slots = stored or self._slots(to, there)
        memory, part = (to, there) if stored else (given, here)
        if not slots or part.lower is None:
            raise UntranslatedError(f"{ast.unparse(to)} gets {ast.unparse(given)}")
        pointer, index = super().place(memory, part.lower)
        first = self.builder.gep(pointer.value, [index.value])
        element = first.type.pointee
        size = self.operations.context.get_abi_sizeof(element)
        count = gcd(len(slots), WIDEST // size)
        whole = ir.VectorType(element, count)
        for start in range(0, len(slots), count):
            place = self.builder.gep(first, [ir.Constant(ir.IntType(64), start)])
            place = self.builder.bitcast(place, whole.as_pointer(first.type.addrspace))
            if stored:
                self._write(place, whole, slots[start : start + count], size * count)
            else:
                self._read(place, slots[start : start + count], size * count)

    def _read(self, place: Any, slots: Sequence[Any], align: int) -> None:
        lines = self.builder.load(place, align=align)
        for lane, slot in enumerate(slots):
            number = ir.Constant(ir.IntType(32), lane)
            self.builder.store(self.builder.extract_element(lines, number), slot)

    def _write(self, place: Any, kind: Any, slots: Sequence[Any], align: int) -> None:
        value: Any = ir.Constant(kind, ir.Undefined)
        for lane, slot in enumerate(slots):
            number = ir.Constant(ir.IntType(32), lane)
            value = self.builder.insert_element(value, self.builder.load(slot), number)
        self.builder.store(value, place, align=align)

    def _slots(self, name: ast.expr, part: ast.Slice) -> tuple[Any, ...]:
        """Returns the registers of a slice, or none if the name is no register array."""
        held = self._held_in(name.id, Registers) if isinstance(name, ast.Name) else None
        if held is None:
            return ()
        low, high = [None if e is None else self._number(e) for e in (part.lower, part.upper)]
        return held.slots[low:high]

    def _entry(self, table: Any, index: Typed) -> Typed:
        """Returns an entry of a constant table."""
        kind = element_kind(table.dtype)
        element = self.operations.context.get_value_type(kind)
        numbers = [ir.Constant(element, number) for number in table.tolist()]
        held = ir.ArrayType(element, len(numbers))
        pointer = self._held(held, kind, "table", CONSTANT, numbers)
        return self.operations.applied(operator.getitem, (pointer, index))

    def _held(self, held: Any, kind: Any, name: str, space: int, contents: Any) -> Typed:
        """Returns a pointer to a global variable of the module."""
        module = self.builder.module
        memory = ir.GlobalVariable(module, held, module.get_unique_name(name), addrspace=space)
        memory.linkage, memory.align = "internal", 16
        memory.initializer = ir.Constant(held, contents)
        # a pointer of its address space, not a generic one: casts hide the alignment
        return Typed(memory.bitcast(held.element.as_pointer(space)), pointer_kind(kind))


def _is_target(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)

"""Translates functions over arrays of this package, the kernels of whole axes, to LLVM IR: numbers,
tuples, arrays and their memory. numba compiles the functions of other packages, and those with
constructs that this translation does not have; it takes ten times as long."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import numpy as np
from llvmlite import ir

from structir.targets.cpu.array_translation import ArrayTranslation, View
from structir.targets.cpu.kinds import BOOLEAN, FLOATS, INDEX, SIGNED, TYPES, UNSIGNED, element_of
from structir.targets.cpu.libc import ALLOCATE, ALLOCATE_ZEROS, FREE, FUNCTIONS
from structir.targets.cpu.operations import Operations, Typed, UntranslatedError

COPY = ast.parse("to[at] = values[at]").body
HEADER = 16  # bytes before allocated memory, for the address of the one allocated before
BYTES, WORD = ir.IntType(8).as_pointer(), ir.IntType(64)
ROUNDED: dict[Any, Any] = {math.floor: np.floor, math.ceil: np.ceil, math.trunc: np.trunc}


@attrs.frozen(eq=False)
class Fields(Typed):
    """A tuple of values."""

    each: tuple[Typed, ...] = ()


class RoutineOperations(Operations):
    """Emits operations on numbers and arrays, and the memory of a point.

    `failed` is the block to which errors jump. `memory` holds the address of the memory that was
    allocated last, which holds that of the one before."""

    def __init__(self, builder: Any, memory: Any, failed: Any) -> None:
        super().__init__(builder)
        self.memory, self.failed = memory, failed

    def together(self, fields: Sequence[Typed]) -> Typed:
        """Returns a tuple of values, which may be arrays."""
        return Fields(None, tuple([f.kind for f in fields]), each=tuple(fields))

    def fields(self, operand: Typed) -> list[Typed]:
        """Returns the fields of a tuple."""
        if not isinstance(operand, Fields):
            raise UntranslatedError("a tuple is expected")
        return list(operand.each)

    def applied(self, function: Any, args: Sequence[Typed]) -> Typed:
        """Applies an operator or a function. Integers are arguments of functions of floats."""
        if function in (min, max):
            return self.extreme(function, args)
        if function in ROUNDED:
            rounded = args[0]
            if rounded.kind in FLOATS:
                rounded = super().applied(ROUNDED[function], args)
            return Typed(self.cast(rounded, INDEX), INDEX)
        symbol = FUNCTIONS.get(function)
        if symbol is not None or function is math.sqrt:
            (operand,) = args
            kind = operand.kind if operand.kind in FLOATS else "float64"
            args = [Typed(self.cast(operand, kind), kind)]
            if symbol is not None:
                return self._external(symbol, args[0])
        return super().applied(function, args)

    def extreme(self, function: Any, given: Sequence[Typed]) -> Typed:
        """Emits the minimum or maximum of some numbers, the first of equal ones."""
        kinds = {g.kind for g in given}
        if "uint64" in kinds and kinds & SIGNED:
            raise UntranslatedError(f"the extreme of {kinds}")
        kind = self.common_kind([g.kind for g in given])
        kind = INDEX if kind in SIGNED else kind
        comparison = operator.lt if function is min else operator.gt
        first, *others = [Typed(self.cast(g, kind), kind) for g in given]
        for other in others:
            is_better = self.applied(comparison, (other, first))
            first = Typed(self.builder.select(is_better.value, other.value, first.value), kind)
        return first

    def _external(self, symbol: str, operand: Typed) -> Typed:
        """Calls a function of C, in float64."""
        value = self.cast(operand, "float64")
        result = self.builder.call(self.declared(symbol, value.type, [value.type]), [value])
        return Typed(self.cast(Typed(result, "float64"), operand.kind), operand.kind)

    def declared(self, symbol: str, result: Any, kinds: Sequence[Any]) -> Any:
        """Returns an external function."""
        module = self.builder.module
        known = module.globals.get(symbol)
        return known or ir.Function(module, ir.FunctionType(result, kinds), symbol)

    def allocated(self, count: Typed, kind: str, zeros: bool) -> Typed:
        """Returns the address of new memory, which is freed at the end of the point."""
        builder = self.builder
        size = builder.mul(self.cast(count, INDEX), ir.Constant(WORD, np.dtype(kind).itemsize))
        size = builder.add(size, ir.Constant(WORD, HEADER))
        if zeros:
            function = self.declared(ALLOCATE_ZEROS, BYTES, [WORD, WORD])
            memory = builder.call(function, [ir.Constant(WORD, 1), size])
        else:
            function = self.declared(ALLOCATE, BYTES, [WORD])
            memory = builder.call(function, [size])
        function.return_value.add_attribute("noalias")
        after = builder.append_basic_block()
        is_null = builder.icmp_unsigned("==", memory, ir.Constant(BYTES, None))
        builder.cbranch(is_null, self.failed, after)
        builder.position_at_end(after)
        before = builder.bitcast(memory, BYTES.as_pointer())
        builder.store(builder.load(self.memory), before)
        builder.store(memory, self.memory)
        start = builder.gep(memory, [ir.Constant(WORD, HEADER)])
        return Typed(builder.bitcast(start, TYPES[kind].as_pointer()), f"{kind}*")

    def free_all(self) -> None:
        """Frees the memory of a point."""
        builder = self.builder
        start, body, after = [builder.append_basic_block() for _ in range(3)]
        builder.branch(start)
        builder.position_at_end(start)
        memory = builder.load(self.memory)
        is_null = builder.icmp_unsigned("==", memory, ir.Constant(BYTES, None))
        builder.cbranch(is_null, after, body)
        builder.position_at_end(body)
        before = builder.load(builder.bitcast(memory, BYTES.as_pointer()))
        builder.store(before, self.memory)
        builder.call(self.declared(FREE, ir.VoidType(), [BYTES]), [memory])
        builder.branch(start)
        builder.position_at_end(after)


class RoutineTranslation(ArrayTranslation):
    """Translates a function over arrays. An index below 0 counts from the end, as in NumPy."""

    operations: RoutineOperations

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.held: dict[str, tuple[Typed, list[Any]]] = {}  # names that get several arrays

    # ---- expressions

    def value(self, expr: ast.expr) -> Typed:
        """Returns the value of an expression."""
        match expr:
            case ast.BinOp(left, ast.Pow(), right):
                base, exponent = self.value(left).number, self.value(right).number
                if base is not None and exponent is not None:
                    return self.operations.constant(base**exponent)
            case ast.Call(ast.Name("isinstance"), [of, dtype], []):
                name = np.dtype(self.fixed(dtype)).name
                return self.operations.constant(self.value(of).kind == name)
            case ast.Call(ast.Attribute(_, "empty" | "zeros") as callee, [shape, dtype], []):
                if self.fixed(callee) in (np.empty, np.zeros):
                    is_zero = self.fixed(callee) is np.zeros
                    return self._array(self.value(shape), np.dtype(self.fixed(dtype)).name, is_zero)
            case ast.Call(ast.Attribute(of, "ravel"), [], []):
                return self._raveled(self._seen(of))
            case ast.Call(ast.Attribute(of, "view"), [dtype], []):
                return self._reinterpreted(self.value(of), np.dtype(self.fixed(dtype)).name)
            case ast.Attribute(ast.Name(name), "size") if view := self.view(name):
                return self.product(view.shape)
            case ast.Attribute(ast.Call() | ast.Subscript() as of, "size"):
                return self.product(self._seen(of).shape)
            case ast.Attribute(ast.Call() | ast.Subscript() as of, "shape"):
                return self.operations.together(self._seen(of).shape)
            case ast.Attribute(ast.Name(name), "ndim") if view := self.view(name):
                return self.operations.constant(len(view.shape))
            case ast.Subscript(
                ast.Call() | ast.Subscript() | ast.Attribute(_, "shape") as base, index
            ):
                return self._part_of(self.value(base), index)
            case ast.Subscript(ast.Name(name), index) if self._is_tuple(name):
                return self._part_of(self.variable(name), index)
        return super().value(expr)

    def fixed(self, expr: ast.expr) -> Any:
        """Evaluates a constant expression."""
        match expr:
            case ast.Attribute(ast.Name(name), "dtype") if view := self.view(name):
                return np.dtype(element_of(view.kind))
        return super().fixed(expr)

    def _is_tuple(self, name: str) -> bool:
        values = [scope[name] for scope in self.scopes if name in scope]
        values += [self.held[name][0]] if name in self.held else []
        return bool(values) and isinstance(values[-1], Fields)

    def _part_of(self, base: Typed, index: ast.expr) -> Typed:
        if isinstance(base, View):
            return self.part(base, index)
        number = self.value(index).number
        fields = self.operations.fields(base)
        if number is None or not 0 <= number < len(fields):
            raise UntranslatedError(f"a field of a tuple: {ast.unparse(index)}")
        return fields[number]

    def _array(self, shape: Typed, kind: str, zeros: bool) -> View:
        if kind not in SIGNED | UNSIGNED | FLOATS:
            raise UntranslatedError(f"an array of {kind}")
        sizes = list(shape.each) if isinstance(shape, Fields) else [shape]
        sizes = [Typed(self.operations.cast(s, INDEX), INDEX, s.number) for s in sizes]
        return self.dense(self.operations.allocated(self.product(sizes), kind, zeros), sizes)

    def called(self, function: Any, args: Sequence[Typed]) -> Typed:
        """Translates a call. A number becomes an array in a slot of the stack."""
        if function is np.asarray and len(args) == 1 and not isinstance(args[0], View):
            slot = self.operations.slot(args[0].kind)
            self.builder.store(args[0].value, slot)
            return View(slot, f"{args[0].kind}*")
        if function in (np.asarray, np.atleast_1d) and len(args) == 1:
            view = args[0]
            is_element = isinstance(view, View) and not view.shape
            return self.dense(view, [self.operations.constant(1)]) if is_element else view
        return super().called(function, args)

    def _seen(self, expr: ast.expr) -> View:
        """Returns the array that an expression is."""
        view = self.value(expr)
        if not isinstance(view, View):
            raise UntranslatedError(f"{ast.unparse(expr)} is no array")
        return view

    def _raveled(self, given: View) -> View:
        """Returns the elements of an array in order: a copy if it has several axes."""
        if len(given.shape) == 1:
            return given
        copy = self._array(self.product(given.shape), element_of(given.kind), False)
        seen = self.dense(copy, given.shape)
        self.scopes.append({"values": given, "to": seen})
        self._nest("at", given.shape, COPY)
        self.scopes.pop()
        return copy

    def _reinterpreted(self, given: Typed, kind: str) -> Typed:
        """Returns a number of the same bits."""
        if given.kind not in TYPES or np.dtype(given.kind).itemsize != np.dtype(kind).itemsize:
            raise UntranslatedError(f"a view of {given.kind} as {kind}")
        return Typed(self.builder.bitcast(given.value, TYPES[kind]), kind)

    def _extreme(self, name: str, given: Sequence[Typed]) -> Typed:
        """Emits the minimum or maximum of some numbers."""
        return self.operations.applied(min if name == "min" else max, given)

    # ---- statements

    def statement(self, statement: ast.stmt) -> None:
        """Translates a statement."""
        match statement:
            case ast.Raise():
                self.builder.branch(self.operations.failed)
            case ast.For(
                ast.Name(name),
                ast.Call(ast.Attribute(_, "ndindex") as callee, [shape], []),
                body,
                [],
            ) if self.fixed(callee) is np.ndindex:
                self._nest(name, self.operations.fields(self.value(shape)), body)
            case ast.For(target, ast.Name(name), body, []) if self.view(name):
                place = f"{name}.index"
                element = ast.Subscript(ast.Name(name), ast.Name(place), ast.Load())
                length = ast.Call(ast.Name("len"), [ast.Name(name)], [])
                indices = ast.Call(ast.Name("range"), [length], [])
                first = ast.Assign([target], element)
                super().statement(ast.For(ast.Name(place), indices, [first, *body], []))
            case _:
                super().statement(statement)

    def _nest(self, name: str, sizes: Sequence[Typed], body: Sequence[ast.stmt]) -> None:
        """Translates a loop over all indices of a shape."""
        if any(isinstance(n, ast.Break | ast.Continue) for s in body for n in ast.walk(s)):
            raise UntranslatedError("a jump out of a loop over indices")
        axes = [f"{name}.{axis}" for axis in range(len(sizes))]
        nest: list[ast.stmt] = [ast.Assign([ast.Name(name)], ast.Tuple([*map(ast.Name, axes)]))]
        nest += body
        for axis in reversed(axes):
            indices = ast.Call(ast.Name("range"), [ast.Name(f"{axis}.size")], [])
            nest = [ast.For(ast.Name(axis), indices, nest, [])]
        self.scopes.append({f"{axis}.size": size for axis, size in zip(axes, sizes, strict=True)})
        self.block(nest)
        self.scopes.pop()

    def named(self, name: str, given: Typed) -> None:
        """Assigns to a name. One that gets several arrays has a slot for each number of them."""
        if name not in self.reassigned:
            super().named(name, given)
            return
        slot = self.slots.get(name)
        if isinstance(given, View | Fields):
            self._hold(name, given)
            return
        if name in self.held:
            raise UntranslatedError(f"{name} is an array and a number")
        kinds = [given.kind] if slot is None else [slot.kind, given.kind]
        if slot is not None and self.operations.common_kind(kinds) == slot.kind:
            given = Typed(self.operations.cast(given, slot.kind), slot.kind)
        super().named(name, given)

    def _hold(self, name: str, given: Typed) -> None:
        numbers = _numbers(given)
        if name not in self.held:
            slots = [
                None if n.number is not None else self.operations.slot(n.kind) for n in numbers
            ]
            self.held[name] = given, slots
        first, slots = self.held[name]
        if _kinds(first) != _kinds(given):
            raise UntranslatedError(f"{name} has two forms")
        for number, known, slot in zip(numbers, _numbers(first), slots, strict=True):
            if slot is not None:
                self.builder.store(number.value, slot)
            elif number.number != known.number:
                raise UntranslatedError(f"{name} has two forms")

    def variable(self, name: str) -> Typed:
        """Returns the value of a name."""
        if name not in self.held:
            return super().variable(name)
        first, slots = self.held[name]
        return _rebuilt(first, iter([s and self.builder.load(s) for s in slots]))

    def view(self, name: str) -> View | None:
        """Returns the array with a name, if it is one."""
        if name in self.held:
            value = self.variable(name)
            return value if isinstance(value, View) else None
        return super().view(name)

    def merged(self, end: Any, results: Sequence[tuple[Typed, Any]]) -> Typed:
        """Returns the value that a block has, of values of one form and their blocks."""
        first = results[0][0]
        if not isinstance(first, View | Fields):
            return super().merged(end, results)
        if len({_kinds(value) for value, _ in results}) > 1:
            raise UntranslatedError("several forms of results")
        blocks, merged = [block for _, block in results], list[Any]()
        for numbers in zip(*[_numbers(value) for value, _ in results], strict=True):
            values = zip([n.value for n in numbers], blocks, strict=True)
            same = {n.number for n in numbers}
            is_constant = len(same) == 1 and None not in same
            merged.append(None if is_constant else self._merge(end, list(values)))
        return _rebuilt(first, iter(merged))

    # ---- indices

    def entries(self, index: ast.expr) -> Sequence[ast.expr]:
        """Returns the entries of an index along the first axes; a name may be that of a tuple."""
        if isinstance(index, ast.Name) and self._is_tuple(index.id):
            count = len(self.operations.fields(self.variable(index.id)))
            return [ast.Subscript(index, ast.Constant(k)) for k in range(count)]
        return super().entries(index)

    def position(self, view: View, axis: int, entry: ast.expr) -> Typed:
        """Returns an index along an axis, which counts from the end if it is negative."""
        given = self.value(entry)
        if given.kind not in SIGNED | UNSIGNED | {BOOLEAN}:
            raise UntranslatedError(f"an index of {given.kind}")
        at = Typed(self.operations.cast(given, INDEX), INDEX, given.number)
        if given.kind not in SIGNED or (given.number is not None and given.number >= 0):
            return at
        return Typed(self._from_start(at.value, view.shape[axis].value), INDEX)

    def range_of(self, view: View, axis: int, part: ast.Slice) -> tuple[Typed, Typed]:
        """Returns the first index and the size of a part of an axis."""
        if part.step is not None:
            raise UntranslatedError(f"a part of an array: {ast.unparse(part)}")
        zero, size = self.operations.constant(0), view.shape[axis]
        if part.lower is None and part.upper is None:
            return zero, size
        low, high = (
            whole if end is None else Typed(self._end(self.value(end), size), INDEX)
            for end, whole in ((part.lower, zero), (part.upper, size))
        )
        builder = self.builder
        length = builder.sub(high.value, low.value)
        is_empty = builder.icmp_signed("<", length, zero.value)
        return low, Typed(builder.select(is_empty, zero.value, length), INDEX)

    def _end(self, given: Typed, size: Typed) -> Any:
        """Returns an end of a part, within the axis."""
        builder, zero = self.builder, self.operations.constant(0).value
        at = self._from_start(self.operations.cast(given, INDEX), size.value)
        at = builder.select(builder.icmp_signed("<", at, zero), zero, at)
        return builder.select(builder.icmp_signed(">", at, size.value), size.value, at)

    def _from_start(self, at: Any, size: Any) -> Any:
        is_negative = self.builder.icmp_signed("<", at, ir.Constant(WORD, 0))
        return self.builder.select(is_negative, self.builder.add(at, size), at)

    def index_of(self, given: Typed) -> Typed:
        """Returns an end of a range."""
        if given.kind not in SIGNED:
            return given
        return Typed(self.operations.cast(given, INDEX), INDEX, given.number)


def _numbers(given: Typed) -> list[Typed]:
    """Returns the numbers and pointers of a value."""
    if isinstance(given, View):
        return [Typed(given.value, given.kind), *given.shape, *given.steps]
    if isinstance(given, Fields):
        return [number for field in given.each for number in _numbers(field)]
    return [given]


def _kinds(given: Typed) -> Any:
    """Returns the kinds of the numbers and pointers of a value, and how many axes it has."""
    if isinstance(given, Fields):
        return tuple([_kinds(field) for field in given.each])
    return given.kind, len(given.shape) if isinstance(given, View) else None


def _rebuilt(like: Typed, values: Iterator[Any]) -> Typed:
    """Returns a value of a form, of other numbers; those that are constants stay."""
    if isinstance(like, View):
        pointer = next(values)
        shape = tuple([_rebuilt(s, values) for s in like.shape])
        steps = tuple([_rebuilt(s, values) for s in like.steps])
        return View(pointer, like.kind, shape=shape, steps=steps)
    if isinstance(like, Fields):
        return Fields(None, like.kind, each=tuple([_rebuilt(f, values) for f in like.each]))
    value = next(values)
    return like if value is None else Typed(value, like.kind)

"""Arithmetic on sizes and addresses as LLVM IR, written with Python's operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import attrs
import llvmlite.binding as llvm
from llvmlite import ir

from structir.targets.cpu.assembly import SUFFIXES, TYPES, Assembly


def declared(module: Any, shape: Any, name: str) -> Any:
    """Returns a function of the module by name, and declares it if necessary."""
    return module.globals.get(name) or ir.Function(module, shape, name)


@attrs.frozen(eq=False)
class Word:
    """An int64 of a function under construction; its operators append instructions."""

    code: FunctionCode
    name: str

    def _with(self, operation: str, other: Word | int) -> Word:
        return Word(self.code, self.code.integer(operation, self.name, name_of(other)))

    def __add__(self, other: Word | int) -> Word:
        return self._with("add", other)

    def __sub__(self, other: Word | int) -> Word:
        return self._with("sub", other)

    def __mul__(self, other: Word | int) -> Word:
        return self._with("mul", other)

    __radd__, __rmul__ = __add__, __mul__

    def __floordiv__(self, other: Word | int) -> Word:
        """The quotient of numbers that are not negative."""
        return self._with("sdiv", other)

    def __mod__(self, other: Word | int) -> Word:
        """The remainder of numbers that are not negative."""
        return self._with("srem", other)

    def rounded_down(self, multiple: int) -> Word:
        """Returns the largest multiple, of a power of two, that is not above this number."""
        return self._with("and", -multiple)

    def _test(self, predicate: str, other: Word | int) -> Predicate:
        return Predicate(self.code, self.code.compare(predicate, self.name, name_of(other)))

    def __lt__(self, other: Word | int) -> Predicate:
        return self._test("slt", other)

    def __le__(self, other: Word | int) -> Predicate:
        return self._test("sle", other)

    def __gt__(self, other: Word | int) -> Predicate:
        return self._test("sgt", other)

    def __ge__(self, other: Word | int) -> Predicate:
        return self._test("sge", other)

    def equals(self, other: Word | int) -> Predicate:
        """Returns whether two numbers are equal."""
        return self._test("eq", other)

    def differs(self, other: Word | int) -> Predicate:
        """Returns whether two numbers differ."""
        return self._test("ne", other)


@attrs.frozen(eq=False)
class Predicate:
    """A truth value of a function under construction."""

    code: FunctionCode
    name: str

    def __and__(self, other: Predicate) -> Predicate:
        return Predicate(self.code, self.code.value(f"and i1 {self.name}, {other.name}"))

    def __or__(self, other: Predicate) -> Predicate:
        return Predicate(self.code, self.code.value(f"or i1 {self.name}, {other.name}"))


@attrs.frozen(eq=False)
class ElementPointer:
    """The address of an element; offsets are in elements. Loaded values are of `kind`, LLVM's name
    of their type."""

    code: FunctionCode
    name: str
    kind: str

    def at(self, index: Word | int) -> ElementPointer:
        """Returns the address of an element after this one."""
        name = self.code.value(f"getelementptr {self.kind}, ptr {self.name}, i64 {name_of(index)}")
        return ElementPointer(self.code, name, self.kind)

    def load(self) -> str:
        """Returns the element."""
        return self.code.value(f"load {self.kind}, ptr {self.name}")

    def store(self, value: str) -> None:
        """Stores the element."""
        self.code.run(f"store {self.kind} {value}, ptr {self.name}")

    def prefetch(self) -> None:
        """Prefetches the cache line of the element; the address may be invalid."""
        options = [("i32", "0"), ("i32", "3"), ("i32", "1")]  # to read, into all caches, of data
        self.code.call("llvm.prefetch.p0", "void", [("ptr", self.name), *options])

    def copy_vector(self, source: ElementPointer, lanes: int) -> None:
        """Copies as many elements as a vector register has lanes."""
        vector, alignment = f"<{lanes} x {self.kind}>", f"align {self.bytes}"
        value = self.code.value(f"load {vector}, ptr {source.name}, {alignment}")
        self.code.run(f"store {vector} {value}, ptr {self.name}, {alignment}")

    def copy_part_of_vector(self, source: ElementPointer, mask: str, lanes: int) -> None:
        """Stores a vector: elements of the source in the lanes of a mask, zeros in the others."""
        code, vector = self.code, f"<{lanes} x {self.kind}>"
        suffix, alignment = f"v{lanes}{SUFFIXES[self.kind]}.p0", ("i32", str(self.bytes))
        chosen = (f"<{lanes} x i1>", mask)
        places = [("ptr", source.name), alignment, chosen, (vector, "zeroinitializer")]
        value = code.call(f"llvm.masked.load.{suffix}", vector, places)
        code.run(f"store {vector} {value}, ptr {self.name}, align {self.bytes}")

    def clear_vector(self, lanes: int) -> None:
        """Stores a vector of zeros."""
        vector = f"<{lanes} x {self.kind}>"
        self.code.run(f"store {vector} zeroinitializer, ptr {self.name}, align {self.bytes}")

    @property
    def bytes(self) -> int:
        """The size of an element."""
        return {"i8": 1, "float": 4, "double": 8}[self.kind]


@attrs.frozen(eq=False)
class Cell:
    """A number that changes, in a stack slot, which LLVM turns into a register."""

    code: FunctionCode
    name: str

    @property
    def value(self) -> Word:
        """The number now."""
        return Word(self.code, self.code.value(f"load i64, ptr {self.name}"))

    def set(self, value: Word | int) -> None:
        """Changes the number."""
        self.code.run(f"store i64 {name_of(value)}, ptr {self.name}")


class FunctionCode(Assembly):
    """A function of addresses and sizes with the C calling convention and without a result."""

    def __init__(self, symbol: str) -> None:
        super().__init__()
        self.symbol = symbol
        self.params: list[str] = []

    def pointers(self, *dtypes: str) -> list[ElementPointer]:
        """Adds parameters: pointers to elements of these dtypes."""
        return [ElementPointer(self, self._parameter("ptr"), TYPES[dtype]) for dtype in dtypes]

    def integers(self, count: int) -> list[Word]:
        """Adds parameters: some integers."""
        return [Word(self, self._parameter("i64")) for _ in range(count)]

    def _parameter(self, kind: str) -> str:
        name = f"%p{len(self.params)}"
        self.params.append(f"{kind} {name}")
        return name

    def cell(self, value: Word | int) -> Cell:
        """Returns a number that changes, with its first value."""
        cell = Cell(self, self.at_entry("alloca i64"))
        cell.set(value)
        return cell

    def stack_memory(self, dtype: str, count: int) -> ElementPointer:
        """Returns memory on the stack."""
        kind = TYPES[dtype]
        return ElementPointer(self, self.at_entry(f"alloca [{count} x {kind}], align 64"), kind)

    def choice(self, test: Predicate, yes: Word | int, no: Word | int) -> Word:
        """Returns one of two numbers."""
        return Word(self, self.select(test.name, "i64", name_of(yes), name_of(no)))

    def smaller(self, left: Word, right: Word | int) -> Word:
        """Returns the smaller of two numbers."""
        return self.choice(left < right, left, right)

    def larger(self, left: Word, right: Word | int) -> Word:
        """Returns the larger of two numbers."""
        return self.choice(left > right, left, right)

    def choice_of_pointers(
        self, test: Predicate, yes: ElementPointer, no: ElementPointer
    ) -> ElementPointer:
        """Returns one of two addresses."""
        return ElementPointer(self, self.select(test.name, "ptr", yes.name, no.name), yes.kind)

    def lanes_below(self, count: Word, lanes: int) -> str:
        """Returns the mask of the first lanes of a vector register."""
        kind = f"<{lanes} x i32>"
        numbers = f"<{', '.join([f'i32 {k}' for k in range(lanes)])}>"
        limit = self.value(f"trunc i64 {count.name} to i32")
        first = self.value(f"insertelement {kind} undef, i32 {limit}, i32 0")
        every = self.value(f"shufflevector {kind} {first}, {kind} undef, {kind} zeroinitializer")
        return self.value(f"icmp slt {kind} {numbers}, {every}")

    def each(self, low: Word | int, high: Word | int, step: Word | int = 1) -> Iterator[Word]:
        """Emits a loop over a range with a positive step, around the code of the `for` statement,
        which runs once."""
        before, inside, latch, after = map(self.label, ("before", "body", "latch", "after"))
        self.jump(before)
        self.start(before)
        self.branch(self.compare("slt", name_of(low), name_of(high)), inside, after)
        self.start(inside)
        index, following = f"%{self.label('i')}", f"%{self.label('next')}"
        self.run(f"{index} = phi i64 [ {name_of(low)}, %{before} ], [ {following}, %{latch} ]")
        yield Word(self, index)
        self.jump(latch)
        self.start(latch)
        self.run(f"{following} = add nsw i64 {index}, {name_of(step)}")
        self.branch(self.compare("slt", following, name_of(high)), inside, after)
        self.start(after)

    @contextmanager
    def repeat(self, test: Callable[[], Predicate]) -> Iterator[None]:
        """Emits a loop that runs as long as a condition holds."""
        before, inside, after = map(self.label, ("before", "body", "after"))
        self.jump(before)
        self.start(before)
        self.branch(test().name, inside, after)
        self.start(inside)
        yield
        self.jump(before)
        self.start(after)

    @contextmanager
    def cases(self) -> Iterator[Callable[[Predicate | None], AbstractContextManager[None]]]:
        """Emits a chain of conditions: the code in the context of the first one that holds runs. A
        condition is computed where its predecessors do not hold, None always holds."""
        end = self.label("end")

        @contextmanager
        def when(test: Predicate | None) -> Iterator[None]:
            if test is None:
                yield
                return
            inside, following = self.label("case"), self.label("following")
            self.branch(test.name, inside, following)
            self.start(inside)
            yield
            self.jump(end)
            self.start(following)

        yield when
        self.jump(end)
        self.start(end)

    def call_symbol(self, symbol: str, *args: Word | ElementPointer | int) -> None:
        """Emits a call of a function without a result."""
        kinds = ["ptr" if isinstance(arg, ElementPointer) else "i64" for arg in args]
        names = [name_of(arg) for arg in args]
        self.call(symbol, "void", list(zip(kinds, names, strict=True)))

    def text(self) -> str:
        """Returns a module that defines the function."""
        return "\n".join(
            [
                f'target triple = "{llvm.get_process_triple()}"',
                *self.declared.values(),
                f"define void @{self.symbol}({', '.join(self.params)}) nounwind {{",
                "entry:",
                *self.entry,
                "br label %begin",
                "begin:",
                *self.lines,
                "ret void",
                "}",
                "",
            ]
        )


def name_of(value: Word | ElementPointer | int) -> str:
    """Returns a value as LLVM IR writes it."""
    return str(value) if isinstance(value, int) else value.name

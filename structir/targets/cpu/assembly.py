"""LLVM's types of the dtypes of kernels, conversions between them, and the text of one function:
values, blocks, loops, and the functions that it calls."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from structir.ir.dtype import is_float
from structir.ir.kernel_functions import EIGHTHS
from structir.targets.cpu.features import converts_float16

Argument = tuple[str, str]  # LLVM's type, and a value


class Assembly:
    """A function under construction. `flags` are the fast-math flags of its arithmetic."""

    def __init__(self, flags: str = "") -> None:
        self.flags = flags
        self.entry: list[str] = []  # instructions before all others
        self.lines: list[str] = []
        self.declared: dict[str, str] = {}  # functions of LLVM and of the library
        self.prepared: dict[str, None] = {}  # functions that are linked in
        self.metadata: list[str] = ["!0 = !{i32 1}"]
        self.block = "begin"
        self.is_open = True  # whether the block has no terminator yet
        self._count = 0
        self._exits: list[tuple[str, str]] = []  # the labels of `continue` and `break`

    # ---- instructions

    def value(self, instruction: str) -> str:
        """Appends an instruction; returns the name of its value."""
        self._count += 1
        self.lines.append(f"%v{self._count} = {instruction}")
        return f"%v{self._count}"

    def at_entry(self, instruction: str) -> str:
        """Appends an instruction to the entry block; returns the name of its value."""
        self._count += 1
        self.entry.append(f"%v{self._count} = {instruction}")
        return f"%v{self._count}"

    def run(self, instruction: str) -> None:
        """Appends an instruction without a value."""
        self.lines.append(instruction)

    def integer(self, operation: str, *args: str) -> str:
        """Appends an operation on int64."""
        return self.value(f"{operation} i64 {', '.join(args)}")

    def compare(self, predicate: str, left: str, right: str) -> str:
        """Appends a comparison of int64."""
        return self.value(f"icmp {predicate} i64 {left}, {right}")

    def select(self, test: str, kind: str, yes: str, no: str) -> str:
        """Appends a selection of one of two values."""
        return self.value(f"select i1 {test}, {kind} {yes}, {kind} {no}")

    def all_of(self, tests: Sequence[str]) -> str:
        """Appends the conjunction of conditions."""
        result = tests[0]
        for test in tests[1:]:
            result = self.value(f"and i1 {result}, {test}")
        return result

    def intrinsic(self, name: str, result: str, args: Sequence[Argument], flags: str = "") -> str:
        """Appends a call of an intrinsic, whose name ends with the type of its first argument."""
        kind = args[0][0]
        return self.call(f"llvm.{name}.{SUFFIXES.get(kind, kind)}", result, args, flags)

    def call(self, name: str, result: str, args: Sequence[Argument], flags: str = "") -> str:
        """Appends a call of a function, which is declared."""
        kinds = ", ".join(kind for kind, _ in args)
        self.declared[name] = f"declare {result} @{name}({kinds})"
        call = f"call {flags}{result} @{name}({', '.join(f'{k} {v}' for k, v in args)})"
        if result == "void":
            self.run(call)
            return ""
        return self.value(call)

    def call_prepared(self, name: str, result: str, args: Sequence[Argument]) -> str:
        """Appends a call of a prepared function, which is linked in."""
        self.prepared[name] = None
        return self.call(name, result, args)

    def overflowing(self, operation: str, left: str, right: str) -> tuple[str, str]:
        """Appends signed int64 arithmetic; returns the result and whether it overflowed."""
        name = f"llvm.{operation}.with.overflow.i64"
        pair = self.call(name, "{i64, i1}", [("i64", left), ("i64", right)])
        number = self.value(f"extractvalue {{i64, i1}} {pair}, 0")
        return number, self.value(f"extractvalue {{i64, i1}} {pair}, 1")

    # ---- blocks

    def label(self, stem: str) -> str:
        """Returns an unused label."""
        self._count += 1
        return f"{stem}{self._count}"

    def start(self, label: str) -> None:
        """Begins a block."""
        self.lines.append(f"{label}:")
        self.block, self.is_open = label, True

    def jump(self, label: str) -> None:
        """Ends the block, if it is open, with a jump."""
        if self.is_open:
            self.lines.append(f"br label %{label}")
            self.is_open = False

    def branch(self, test: str, yes: str, no: str, mark: str = "") -> None:
        """Ends the block with a conditional jump."""
        self.lines.append(f"br i1 {test}, label %{yes}, label %{no}{mark}")
        self.is_open = False

    @contextmanager
    def when(self, test: str) -> Iterator[None]:
        """Instructions in this context run only where a condition holds."""
        inside, after = self.label("when"), self.label("after")
        self.branch(test, inside, after)
        self.start(inside)
        yield
        self.jump(after)
        self.start(after)

    def choose(self, test: str, yes: Callable[[], None], no: Callable[[], None]) -> None:
        """Emits one of two blocks by a test."""
        then, otherwise, after = map(self.label, ("then", "else", "after"))
        self.branch(test, then, otherwise)
        for label, block in ((then, yes), (otherwise, no)):
            self.start(label)
            block()
            self.jump(after)
        self.start(after)

    def joined(self, kind: str, test: str, sides: Sequence[Callable[[], str]]) -> str:
        """Appends a conditional; returns the value of the side that runs."""
        labels, after = [self.label("side") for _ in sides], self.label("join")
        self.branch(test, labels[0], labels[1])
        incoming = []
        for label, side in zip(labels, sides, strict=True):
            self.start(label)
            value = side()
            incoming.append(f"[ {value}, %{self.block} ]")
            self.jump(after)
        self.start(after)
        return self.value(f"phi {kind} {', '.join(incoming)}")

    # ---- loops

    @contextmanager
    def exits(self, again: str, after: str) -> Iterator[None]:
        """Sets the labels of `continue` and `break` in this context."""
        self._exits.append((again, after))
        yield
        self._exits.pop()

    def leave(self, again: bool) -> None:
        """Appends a `continue`, or a `break`."""
        self.jump(self._exits[-1][0 if again else 1])

    def count(
        self, low: str, high: str, step: int, body: Callable[[str], None], mark: str = ""
    ) -> None:
        """Appends a loop over a range; `body` receives the index."""
        before, inside, latch, after = map(self.label, ("before", "body", "latch", "after"))
        predicate = "slt" if step > 0 else "sgt"
        self.jump(before)
        self.start(before)
        self.branch(self.compare(predicate, low, high), inside, after)
        self.start(inside)
        index, following = f"%{self.label('i')}", f"%{self.label('next')}"
        self.run(f"{index} = phi i64 [ {low}, %{before} ], [ {following}, %{latch} ]")
        with self.exits(latch, after):
            body(index)
        self.jump(latch)
        self.start(latch)
        self.run(f"{following} = add nsw i64 {index}, {step}")
        self.branch(self.compare(predicate, following, high), inside, after, mark)
        self.start(after)

    def masked_loop(self, is_rolled: bool = False) -> str:
        """Returns the mark of the latch of a loop that LLVM vectorizes with masks; if `is_rolled`,
        LLVM must not unroll it before."""
        others = [ROLLED] if is_rolled else []
        return self.loop_mark('!"llvm.loop.vectorize.predicate.enable", i1 true', *others)

    def loop_mark(self, *properties: str) -> str:
        """Returns the mark of the latch of a loop with some properties."""
        first = len(self.metadata)
        numbers = range(first, first + len(properties))
        self.metadata += [f"!{n} = !{{{p}}}" for n, p in zip(numbers, properties, strict=True)]
        last = numbers.stop
        listed = ", ".join([f"!{n}" for n in (last, *numbers)])
        self.metadata.append(f"!{last} = distinct !{{{listed}}}")
        return f", !llvm.loop !{last}"


ROLLED, UNROLLED = [f'!"llvm.loop.unroll.{mark}"' for mark in ("disable", "full")]
TYPES = {"float32": "float", "float64": "double", "bool": "i1"}
TYPES |= {f"{sign}int{bits}": f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
STORED = {**TYPES, "bool": "i8", "float16": "i16", "bfloat16": "i16"}
STORED |= dict.fromkeys(EIGHTHS, "i8")
SUFFIXES = {"float": "f32", "double": "f64"}


def constant(value: Any, dtype: str) -> str:
    """Returns a constant of a dtype; floats are written as the bits of a double."""
    if dtype == "bool":
        return "true" if value else "false"
    if not is_float(dtype):
        return str(int(value))
    wide = float(value)
    return f"0x{struct.pack('>d', rounded(wide) if dtype == 'float32' else wide).hex().upper()}"


def rounded(value: float) -> float:
    """Returns the float32 nearest to a double, as a double."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def bits_of(dtype: str) -> int:
    """Returns the number of bits of a value of a dtype."""
    return 1 if dtype == "bool" else int(dtype.lstrip("bfloatuin"))


def is_signed(dtype: str) -> bool:
    """Returns whether a dtype is one of signed integers."""
    return dtype.startswith("int")


def converted(asm: Assembly, value: str, source: str, target: str) -> str:
    """Appends a conversion. Of floats to integers it saturates, and NaN becomes 0."""
    if source == target:
        return value
    kind, result = TYPES[source], TYPES[target]
    if target == "bool":
        test = "fcmp une" if is_float(source) else "icmp ne"
        return asm.value(f"{test} {kind} {value}, {'0.0' if is_float(source) else '0'}")
    if is_float(source) and not is_float(target):
        return _truncated(asm, value, source, target)
    if kind == result:
        return value  # integers that differ in their sign
    return asm.value(f"{_instruction(source, target)} {kind} {value} to {result}")


def _truncated(asm: Assembly, value: str, source: str, target: str) -> str:
    """A float as an integer: toward 0, at the ends the last ones, 0 for NaN. LLVM's saturating
    conversion has no vector form on most CPUs."""
    kind, result, bits = TYPES[source], TYPES[target], bits_of(target)
    least = -(1 << bits - 1) if is_signed(target) else 0
    greatest = least + (1 << bits) - 1
    instruction = "fptosi" if is_signed(target) else "fptoui"

    def bounded(test: str, number: str, limit: int) -> str:
        bound = constant(limit, source)
        return asm.select(asm.value(f"fcmp {test} {kind} {number}, {bound}"), kind, number, bound)

    is_number = asm.value(f"fcmp ord {kind} {value}, {value}")
    raised = bounded("ogt", value, least)
    if bits < 32:  # floats have all of its numbers
        whole = asm.value(f"{instruction} {kind} {bounded('olt', raised, greatest)} to {result}")
        return asm.select(is_number, result, whole, "0")
    whole = asm.value(f"{instruction} {kind} {raised} to {result}")
    is_small = asm.value(f"fcmp olt {kind} {value}, {constant(greatest + 1, source)}")
    beyond = asm.select(is_number, result, str(greatest), "0")
    return asm.select(is_small, result, whole, beyond)


def _instruction(source: str, target: str) -> str:
    is_wider = bits_of(target) > bits_of(source)
    if is_float(target):
        if is_float(source):
            return "fpext" if is_wider else "fptrunc"
        return "sitofp" if is_signed(source) else "uitofp"
    if not is_wider:
        return "trunc"
    return "sext" if is_signed(source) else "zext"


def loaded(asm: Assembly, pointer: str, stored: str, is_register: bool = False) -> str:
    """Appends a load of an element; 16-bit floats become float32. A register that was not written
    has an arbitrary value, but the same one in all uses of a load: a checked index stays in range.
    """
    value = asm.value(f"load {STORED[stored]}, ptr {pointer}")
    if is_register:
        value = asm.value(f"freeze {STORED[stored]} {value}")
    row = FORMS.get(stored)
    return value if row is None else row[0](asm, value)


def store(asm: Assembly, value: str, pointer: str, stored: str, mark: str = "") -> None:
    """Appends a store of an element."""
    row = FORMS.get(stored)
    if row is not None:
        value = row[1](asm, value)
    asm.run(f"store {STORED[stored]} {value}, ptr {pointer}{mark}")


def _half_value(asm: Assembly, bits: str) -> str:
    if not converts_float16():
        return asm.call_prepared("half_value", "float", [("i16", bits)])
    return asm.value(f"fpext half {asm.value(f'bitcast i16 {bits} to half')} to float")


def _half_bits(asm: Assembly, value: str) -> str:
    if not converts_float16():
        return asm.call_prepared("half_bits", "i16", [("float", value)])
    return asm.value(f"bitcast half {asm.value(f'fptrunc float {value} to half')} to i16")


def _brain_value(asm: Assembly, bits: str) -> str:
    word = asm.value(f"shl i32 {asm.value(f'zext i16 {bits} to i32')}, 16")
    return asm.value(f"bitcast i32 {word} to float")


def _brain_bits(asm: Assembly, value: str) -> str:
    """The upper half of a float32, rounded to nearest even; NaN stays one."""
    word = asm.value(f"bitcast float {value} to i32")
    last = asm.value(f"and i32 {asm.value(f'lshr i32 {word}, 16')}, 1")
    rounded = asm.value(f"add i32 {word}, {asm.value(f'add i32 {last}, 32767')}")
    is_nan = asm.value(f"fcmp uno float {value}, {value}")
    kept = asm.select(is_nan, "i32", str(0x7FC00000), rounded)
    return asm.value(f"trunc i32 {asm.value(f'lshr i32 {kept}, 16')} to i16")


def _eighth(dtype: str) -> tuple[Form, Form]:
    """The forms of a float of eight bits, by functions that are linked in."""
    return (
        lambda asm, bits: asm.call_prepared(f"{dtype}_value", "float", [("i8", bits)]),
        lambda asm, value: asm.call_prepared(f"{dtype}_code", "i8", [("float", value)]),
    )


def rounded_to(stored: str) -> Form:
    """Returns the rounding of a float32 to the numbers of a dtype."""
    from_memory, to_memory = FORMS[stored]
    return lambda asm, value: from_memory(asm, to_memory(asm, value))


Form = Callable[[Assembly, str], str]
# By dtype: from the form in memory, and to it.
FORMS: dict[str, tuple[Form, Form]] = {
    "bool": (
        lambda asm, value: asm.value(f"icmp ne i8 {value}, 0"),
        lambda asm, value: asm.value(f"zext i1 {value} to i8"),
    ),
    "float16": (_half_value, _half_bits),
    "bfloat16": (_brain_value, _brain_bits),
    **{eighth: _eighth(eighth) for eighth in EIGHTHS},
}

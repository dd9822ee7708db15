"""Conversions between dtypes, and between values and their form in memory."""

from __future__ import annotations

from collections.abc import Callable

from structir.backend.cpu.features import converts_float16
from structir.backend.emit.assembly import STORED, TYPES, Assembly, bits_of, constant, is_signed
from structir.ir.dtype import is_float
from structir.ir.kernel_functions import EIGHTHS


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

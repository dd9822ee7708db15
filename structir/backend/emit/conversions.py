"""Conversions between dtypes, and between values and their form in memory."""

from __future__ import annotations

from structir.backend.emit.assembly import Assembly
from structir.backend.emit.types import STORED, SUFFIXES, TYPES, bits_of, is_signed
from structir.ir.dtype import is_float

HALVES = {"float16": "half", "bfloat16": "brain"}  # prefixes of the functions that convert them


def converted(asm: Assembly, value: str, source: str, target: str) -> str:
    """Appends a conversion. Of floats to integers it saturates, and NaN becomes 0."""
    if source == target:
        return value
    kind, result = TYPES[source], TYPES[target]
    if target == "bool":
        test = "fcmp une" if is_float(source) else "icmp ne"
        return asm.value(f"{test} {kind} {value}, {'0.0' if is_float(source) else '0'}")
    if is_float(source) and not is_float(target):
        sign = "s" if is_signed(target) else "u"
        name = f"llvm.fpto{sign}i.sat.{result}.{SUFFIXES[kind]}"
        return asm.call(name, result, [(kind, value)])
    if kind == result:
        return value  # integers that differ in their sign
    return asm.value(f"{_instruction(source, target)} {kind} {value} to {result}")


def _instruction(source: str, target: str) -> str:
    is_wider = bits_of(target) > bits_of(source)
    if is_float(target):
        if is_float(source):
            return "fpext" if is_wider else "fptrunc"
        return "sitofp" if is_signed(source) else "uitofp"
    if not is_wider:
        return "trunc"
    return "sext" if is_signed(source) else "zext"


def loaded(asm: Assembly, pointer: str, stored: str) -> str:
    """Appends a load of an element; 16-bit floats become float32."""
    kind = STORED[stored]
    value = asm.value(f"load {kind}, ptr {pointer}")
    if stored == "bool":
        return asm.value(f"icmp ne i8 {value}, 0")
    if stored in HALVES:
        return asm.call_prepared(f"{HALVES[stored]}_value", "float", [(kind, value)])
    return value


def store(asm: Assembly, value: str, pointer: str, stored: str, mark: str = "") -> None:
    """Appends a store of an element."""
    kind = STORED[stored]
    if stored == "bool":
        value = asm.value(f"zext i1 {value} to i8")
    elif stored in HALVES:
        value = asm.call_prepared(f"{HALVES[stored]}_bits", kind, [("float", value)])
    asm.run(f"store {kind} {value}, ptr {pointer}{mark}")

"""Compiled evaluation of sizes and layout of arenas, which every call with new sizes needs.

Size programs are tables of integers for an interpreter, so no code is generated per plan.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

from structir.targets.cpu.code_generation import c_function
from structir.targets.cpu.intrinsics import offset_by
from structir.targets.cpu.kinds import INDEX, WORDS

Word = Any
INSTRUCTION_WORDS: Final = 5  # an operation, the registers of its result and of three operands
HEAD_WORDS: Final = 4
LIFETIME_WORDS: Final = 3  # first and last kernel, bytes of an element
LARGEST: Final = 1 << 62  # larger values are evaluated exactly, by Python
FACTOR: Final = 1 << 31  # a product of two smaller numbers cannot overflow
MOST_ELEMENTS: Final = 1 << 44  # of a buffer; larger arenas are laid out by Python
LINE: Final = 64  # bytes; buffers are aligned to it

advance: Any = offset_by


class SizeOperations(NamedTuple):
    """The operations of a program."""

    add: int = 0
    multiply: int = 1
    floordiv: int = 2
    floormod: int = 3
    min: int = 4
    max: int = 5
    lt: int = 6
    le: int = 7
    eq: int = 8
    ne: int = 9
    select: int = 10


class ProgramHead(NamedTuple):
    """The indices of the words in front of the instructions."""

    inputs: int = 0  # number of registers that a call sets
    instructions: int = 1
    registers: int = 2  # the results follow them
    results: int = 3


OPERATION, HEAD = SizeOperations(), ProgramHead()


def magnitude(value: Word) -> Word:
    """Returns the absolute value."""
    return -value if value < 0 else value


def is_too_large(value: Word) -> Word:
    """Whether sums of such values could overflow."""
    return value >= LARGEST or value <= -LARGEST


def overflows(lhs: Word, rhs: Word) -> Word:
    """Whether a product could be too large."""
    left, right = magnitude(lhs), magnitude(rhs)
    if left < FACTOR and right < FACTOR:
        return False
    return left != 0 and right > LARGEST // left


def apply(operation: Word, lhs: Word, rhs: Word, other: Word) -> Word:
    """Evaluates an operation; the caller has excluded overflow and division by zero."""
    if operation == OPERATION.add:
        return lhs + rhs
    if operation == OPERATION.multiply:
        return lhs * rhs
    if operation == OPERATION.floordiv:
        return lhs // rhs
    if operation == OPERATION.floormod:
        return lhs % rhs
    if operation == OPERATION.min:
        return rhs if rhs < lhs else lhs
    if operation == OPERATION.max:
        return rhs if rhs > lhs else lhs
    if operation == OPERATION.lt:
        return 1 if lhs < rhs else 0
    if operation == OPERATION.le:
        return 1 if lhs <= rhs else 0
    if operation == OPERATION.eq:
        return 1 if lhs == rhs else 0
    if operation == OPERATION.ne:
        return 1 if lhs != rhs else 0
    return rhs if lhs != 0 else other


def evaluate_sizes(program: Word, registers: Word) -> Word:
    """Evaluates a program; stores its results behind the registers. Returns 1 if Python must."""
    count = program[HEAD.instructions]
    for k in range(program[HEAD.inputs]):
        if is_too_large(registers[k]):
            return 1
    for k in range(count):
        instruction = advance(program, HEAD_WORDS + INSTRUCTION_WORDS * k)
        operation, lhs, rhs = instruction[0], registers[instruction[2]], registers[instruction[3]]
        if operation == OPERATION.multiply and overflows(lhs, rhs):
            return 1
        is_division = operation == OPERATION.floordiv or operation == OPERATION.floormod
        if is_division and rhs == 0:
            return 1
        value = apply(operation, lhs, rhs, registers[instruction[4]])
        if is_too_large(value):
            return 1
        registers[instruction[1]] = value
    numbers = advance(program, HEAD_WORDS + INSTRUCTION_WORDS * count)
    results = advance(registers, program[HEAD.registers])
    for k in range(program[HEAD.results]):
        results[k] = registers[numbers[k]]
    return 0


def lowest_gap(lifetimes: Word, sizes: Word, offsets: Word, order: Word, index: Word) -> Word:
    """Returns the lowest offset for a buffer between those placed before it.

    `order` holds the count of placed buffers, then their indices by offset.
    """
    first, last = lifetimes[LIFETIME_WORDS * index], lifetimes[LIFETIME_WORDS * index + 1]
    offset = 0
    for k in range(order[0]):
        placed = order[1 + k]
        if (
            lifetimes[LIFETIME_WORDS * placed + 1] < first
            or last < lifetimes[LIFETIME_WORDS * placed]
        ):
            continue
        if offset + sizes[index] <= offsets[placed]:
            break
        end = offsets[placed] + sizes[placed]
        if end > offset:
            offset = end
    return offset


def insert(order: Word, keys: Word, index: Word) -> Word:
    """Inserts an index into a list with its count in front, behind those of at most its key."""
    k = order[0]
    while k > 0 and keys[order[k]] > keys[index]:
        order[k + 1] = order[k]
        k -= 1
    order[k + 1] = index
    order[0] += 1
    return 0


def assign_offsets(lifetimes: Word, count: Word, memory: Word) -> Word:
    """Lays out an arena: each buffer in the lowest gap, from the largest to the smallest.

    The memory holds the elements of each buffer, then has room for the offsets, the size of the
    arena, and `3 * count + 2` words. Returns 1 if Python must lay it out.
    """
    offsets = advance(memory, count)
    sizes = advance(offsets, count + 1)
    by_size, by_offset = advance(sizes, count), advance(sizes, 2 * count + 1)
    by_size[0], by_offset[0], offsets[count] = 0, 0, 0
    for k in range(count):
        elements = memory[k]
        if elements > MOST_ELEMENTS:
            return 1
        if elements < 1:
            elements = 1
        size = elements * lifetimes[LIFETIME_WORDS * k + 2]
        sizes[k] = -((size + LINE - 1) // LINE * LINE)  # negative: the largest is first
    for k in range(count):
        insert(by_size, sizes, k)
    for k in range(count):
        sizes[k] = -sizes[k]
    for k in range(count):
        index = by_size[1 + k]
        offsets[index] = lowest_gap(lifetimes, sizes, offsets, by_offset, index)
        insert(by_offset, offsets, index)
        end = offsets[index] + sizes[index]
        if end > offsets[count]:
            offsets[count] = end
    return 0


@cache
def size_evaluator() -> Callable[[int, int], int]:
    """Returns `evaluate_sizes` for the addresses of a program and its registers."""
    address = c_function(evaluate_sizes, INDEX, WORDS, WORDS)
    return ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(address)


@cache
def offset_assigner() -> Callable[[int, int, int], int]:
    """Returns `assign_offsets` for the address of lifetimes, their number, and that of memory."""
    code, address = c_function(assign_offsets, INDEX, WORDS, INDEX, WORDS), ctypes.c_void_p
    return ctypes.PYFUNCTYPE(ctypes.c_int64, address, ctypes.c_int64, address)(code)

"""Evaluates all integers of a plan from the sizes of a call; lifetimes of buffers, and their
offsets in one arena."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import numpy as np

from structir.ir import dims
from structir.ir.dims import Atom, Dim, Poly, Sym
from structir.loops.program.buffer import Buffer, element_bytes
from structir.loops.program.kernel_text import KernelText
from structir.planning import layout
from structir.system.locks import new_lock
from structir.targets.cpu.size_interpreter import (
    HEAD_WORDS,
    LARGEST,
    OPERATION,
    offset_assigner,
    size_evaluator,
)

Array = Any
FIRST_USES = 1  # evaluated by Python: most programs have one size


def symbols_of(values: Iterable[Dim]) -> list[Sym]:
    """Returns all symbols of some dims, in order of creation."""
    symbolic = {id(value): value for value in values if type(value) is Poly}
    return sorted(set[Sym]().union(*map(dims.syms, symbolic.values())), key=lambda s: s.order)


def integers(values: Sequence[int]) -> Array:
    """Returns integers as an array of int64, or of Python integers if one is larger."""
    try:
        return np.array(values, np.int64)
    except OverflowError:
        return np.array(values, object)


class Evaluator:
    """Evaluates dims for the sizes of symbols: later sizes by a table of instructions in compiled
    code.

    It runs no generated code, since a plan may come from a file. Python evaluates values exactly
    that are too large for the instructions, and reports divisions by zero.
    """

    def __init__(self, values: Sequence[Dim], symbols: Sequence[Sym]) -> None:
        self._values, self._symbols = values, symbols
        self._uses = 0
        self._program: SizeProgram | None = None

    def __call__(self, sizes: Sequence[int]) -> Array:
        """Returns the values as `integers`."""
        if self._program is None:
            self._uses += 1
            if self._uses <= FIRST_USES:
                return self._exactly(sizes)
            self._program = SizeProgram(self._values, self._symbols)
        values = self._program.run(sizes)
        return self._exactly(sizes) if values is None else values

    def _exactly(self, sizes: Sequence[int]) -> Array:
        assignment = dict(zip(self._symbols, sizes, strict=True))
        distinct = {dim: dims.evaluate(dim, assignment) for dim in dict.fromkeys(self._values)}
        return integers([distinct[dim] for dim in self._values])


class SizeProgram:
    """Dims as instructions on registers: first the sizes, then constants and values."""

    def __init__(self, values: Sequence[Dim], symbols: Sequence[Sym]) -> None:
        self._numbers: dict[Any, int] = {symbol: k for k, symbol in enumerate(symbols)}
        self._initial = [0] * len(symbols)
        self._steps: list[list[int]] = []
        self._inputs = len(symbols)
        order = [self._dim(value) for value in values]
        self._results = len(self._initial)
        head = [self._inputs, len(self._steps), self._results, len(order)]
        assert len(head) == HEAD_WORDS
        self._words = np.array([*head, *[w for s in self._steps for w in s], *order], np.int64)
        self.address = int(self._words.ctypes.data)
        self.is_small = all([abs(number) < LARGEST for number in self._initial])
        memory = self._initial + [0] * len(order)
        self._memory = np.array(memory if self.is_small else [0], np.int64)
        self._memory_address = int(self._memory.ctypes.data)
        self._lock = new_lock()
        self._run = size_evaluator()

    def initial_memory(self) -> list[int]:
        """Returns the registers before a run, with room for the values."""
        memory: list[int] = self._memory.tolist()
        return memory

    def run(self, sizes: Sequence[int]) -> Array | None:
        """Returns the values at some sizes; None if Python must evaluate them."""
        if not self.is_small:
            return None
        with self._lock:
            self._memory[: self._inputs] = sizes
            if self._run(self.address, self._memory_address):
                return None
            return self._memory[self._results :].copy()

    def _register(self, key: Any, initial: int = 0) -> int:
        self._numbers[key] = len(self._initial)
        self._initial.append(initial)
        return self._numbers[key]

    def _constant(self, number: int) -> int:
        known = self._numbers.get(number)
        return self._register(number, number) if known is None else known

    def _step(self, operation: str, *operands: int) -> int:
        key = (operation, *operands)
        if key not in self._numbers:
            register = self._register(key)
            code = getattr(OPERATION, operation)
            self._steps.append([code, register, *operands, *[0] * (3 - len(operands))])
        return self._numbers[key]

    def _dim(self, dim: Dim) -> int:
        """Returns the register of a dim."""
        if type(dim) is not Poly:
            return self._constant(dim)
        if dim not in self._numbers:
            terms = [self._term(atoms, factor) for atoms, factor in dim.terms.items()]
            if dim.constant:
                terms.append(self._constant(dim.constant))
            self._numbers[dim] = self._combined("add", terms)
        return self._numbers[dim]

    def _term(self, atoms: Sequence[Atom], factor: int) -> int:
        product = self._combined("multiply", [self._atom(atom) for atom in atoms])
        return product if factor == 1 else self._step("multiply", product, self._constant(factor))

    def _combined(self, operation: str, registers: Sequence[int]) -> int:
        value = registers[0]
        for register in registers[1:]:
            value = self._step(operation, value, register)
        return value

    def _atom(self, atom: Atom) -> int:
        if type(atom) is Sym:
            return self._numbers[atom]
        operands = [self._dim(argument) for argument in _bounding(atom)]
        combines = atom.fn in ("min", "max")  # of two operands or more
        return self._combined(atom.fn, operands) if combines else self._step(atom.fn, *operands)


def _bounding(atom: Any) -> Sequence[Dim]:
    """Returns the operands of an atom, without the bounds that no value of a program exceeds, such
    as the end of a slice up to the last element."""
    largest = {"min": LARGEST, "max": -LARGEST}.get(atom.fn)
    if largest is None:
        return atom.args  # type: ignore[no-any-return]
    sign = 1 if largest > 0 else -1
    operands = [a for a in atom.args if type(a) is Poly or a * sign < largest * sign]
    return operands or atom.args


ALIGNMENT = 64
NO_OFFSETS = np.zeros(0, np.int64)


@attrs.frozen(eq=False)
class Lifetime:
    """A buffer in the arena, from the first kernel that uses it to the last."""

    buffer: Buffer
    first: int
    last: int
    element_bytes: int


def lifetimes(kernels: Sequence[KernelText], outside: frozenset[Buffer]) -> list[Lifetime]:
    """Returns the buffers of the arena: all that kernels use except inputs and results."""
    spans: dict[Buffer, tuple[int, int]] = {}
    for step, kernel in enumerate(kernels):
        for buffer in kernel.pointers:
            if buffer not in outside:
                first, _ = spans.get(buffer, (step, step))
                spans[buffer] = (first, step)
    return [
        Lifetime(buffer, first, last, element_bytes(buffer.dtype))
        for buffer, (first, last) in spans.items()
    ]


class ArenaLayout:
    """Lays out an arena for the sizes of many calls: later ones in compiled code."""

    def __init__(self, spans: Sequence[Lifetime]) -> None:
        self.spans = spans
        self._count = len(spans)
        self._uses = 0
        self._lock = new_lock()
        words = [word for s in spans for word in (s.first, s.last, s.element_bytes)]
        self.lifetimes = np.array([*words, 0], np.int64)
        self._memory = np.zeros(5 * self._count + 3, np.int64)
        self._addresses = int(self.lifetimes.ctypes.data), int(self._memory.ctypes.data)

    def assign(self, elements: Sequence[int]) -> tuple[Any, int]:
        """Returns the offset of each buffer as an array, and the size of the arena, in bytes."""
        if self._count == 0:
            return NO_OFFSETS, 0
        self._uses += 1
        if self._uses == 1 or self._count > layout.MOST_COMPARED:
            return self._assign(elements)
        words, memory = self._addresses
        end = 2 * self._count
        with self._lock:
            try:
                self._memory[: self._count] = elements
            except OverflowError:
                return self._assign(elements)
            if offset_assigner()(words, self._count, memory):
                return self._assign(elements)
            return self._memory[self._count : end].copy(), int(self._memory[end])

    def _assign(self, elements: Sequence[int]) -> tuple[Any, int]:
        sizes = [
            -(-max(count, 1) * span.element_bytes // ALIGNMENT) * ALIGNMENT
            for span, count in zip(self.spans, elements, strict=True)
        ]
        offsets, size = layout.assign_offsets([(s.first, s.last) for s in self.spans], sizes)
        return integers(offsets), size

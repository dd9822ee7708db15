"""Translates the calls of a function over arrays at each point of a kernel to LLVM IR."""

from __future__ import annotations

import operator
from functools import partial, reduce
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from structir.interrupts import collection_paused
from structir.ir import dims
from structir.ir.code_hash import is_of_package
from structir.ir.dims import Dim, Opaque, Poly, Sym
from structir.loops.program.buffer import STORED_AS, Buffer
from structir.loops.program.routine import BufferPoint, Routine
from structir.targets.cpu.array_translation import View
from structir.targets.cpu.code_generation import ENTRY, Assembled
from structir.targets.cpu.functions import transitive_callees
from structir.targets.cpu.inlined import Inlined, parse_function
from structir.targets.cpu.kinds import FLOATS, INDEX, SIGNED, TYPES, UNSIGNED
from structir.targets.cpu.operations import Typed, UntranslatedError
from structir.targets.cpu.routine_translation import (
    BYTES,
    WORD,
    RoutineOperations,
    RoutineTranslation,
)

NO_FUNCTION = Inlined((), (), {}, {}, False)
OPAQUE = {  # functions of sizes
    "floordiv": operator.floordiv,
    "floormod": operator.mod,
    "min": min,
    "max": max,
    **{name: getattr(operator, name) for name in ("lt", "le", "eq", "ne")},
}


@collection_paused()
def assembled_routine(routine: Routine) -> Assembled | None:
    """Returns the kernel of a routine in LLVM IR; None if only numba can compile it."""
    if not all(map(is_of_package, transitive_callees(routine.function))):
        return None
    function = parse_function(routine.function)
    if function is None:
        return None
    module = ir.Module(ENTRY)
    module.triple = llvm.get_process_triple()
    kinds = [BYTES.as_pointer(), BYTES.as_pointer(), WORD.as_pointer(), WORD, WORD]
    kernel = ir.Function(module, ir.FunctionType(ir.IntType(32), kinds), ENTRY.removeprefix("@"))
    try:
        _Points(kernel, routine).write(function)
    except UntranslatedError:
        return None
    return Assembled(str(module).replace(f'@"{kernel.name}"', ENTRY), ())


class _Points:
    """Writes the loop over the points of a routine."""

    def __init__(self, kernel: Any, routine: Routine) -> None:
        self.routine, self.builder = routine, ir.IRBuilder(kernel.append_basic_block("entry"))
        _, _, table, self.low, self.high = kernel.args
        self.failed = kernel.append_basic_block("failed")
        self.memory = self.builder.alloca(BYTES)
        self.operations = RoutineOperations(self.builder, self.memory, self.failed)
        self.words: dict[Buffer | Dim, Typed] = {}
        for number, key in enumerate((*routine.buffers, *routine.sizes)):
            place = self.builder.gep(table, [ir.Constant(WORD, number)])
            self.words[key] = Typed(self.builder.load(place), INDEX)
        self.places: dict[Sym, Typed] = {}

    def write(self, function: Inlined) -> None:
        """Writes the loop, with the function in it."""
        builder, kernel = self.builder, self.builder.function
        start, body, done = [kernel.append_basic_block() for _ in range(3)]
        before = builder.block
        builder.store(ir.Constant(BYTES, None), self.memory)
        builder.branch(start)
        builder.position_at_end(start)
        point = builder.phi(WORD)
        point.add_incoming(self.low, before)
        builder.cbranch(builder.icmp_signed("<", point, self.high), body, done)
        builder.position_at_end(body)
        self._find(Typed(point, INDEX))
        arguments = [self._argument(a) for a in self.routine.arguments]
        if len(arguments) != len(function.params):
            raise UntranslatedError("parameters with defaults")
        with self.operations.contracted():
            RoutineTranslation(self.operations, function).inline(function, arguments)
        self.operations.free_all()
        following = builder.add(point, ir.Constant(WORD, 1), flags=("nsw",))
        point.add_incoming(following, builder.block)
        builder.branch(start)
        for block, status in ((done, 0), (self.failed, 1)):
            builder.position_at_end(block)
            if status:
                self.operations.free_all()
            builder.ret(ir.Constant(ir.IntType(32), status))

    def _find(self, point: Typed) -> None:
        """Finds the position of a point along the axes."""
        axes = [*self.routine.extents.items()]
        for axis, extent in axes[:0:-1]:
            size = self._size(extent).value
            self.places[axis] = Typed(self.builder.srem(point.value, size), INDEX)
            point = Typed(self.builder.sdiv(point.value, size), INDEX)
        if axes:
            self.places[axes[0][0]] = point

    def _argument(self, argument: Any) -> Typed:
        match argument:
            case BufferPoint():
                return self._view(argument)
            case tuple():
                return self.operations.together([self._argument(part) for part in argument])
            case Poly():
                return self._index(argument)
            case None:
                return self.operations.nothing()
        return self.operations.constant(argument)

    def _view(self, argument: BufferPoint) -> Typed:
        """Returns a view along the axes without an index; the element if all have one, and an array
        of one element if it is to be written."""
        buffer, at = argument.buffer, argument.at
        kind = STORED_AS.get(buffer.dtype, buffer.dtype)
        if kind not in SIGNED | UNSIGNED | FLOATS:
            raise UntranslatedError(f"elements of {kind}")
        pointer = self.builder.inttoptr(self.words[buffer.root].value, TYPES[kind].as_pointer())
        base = Typed(pointer, f"{kind}*")
        translation = RoutineTranslation(self.operations, NO_FUNCTION)
        view = translation.dense(base, [self._size(size) for size in buffer.shape])
        value, kept = view.value, [k for k, index in enumerate(at) if index is None]
        for index, step in zip(at, view.steps, strict=True):
            if index is not None:
                offset = self.operations.applied(operator.mul, (self._index(index), step))
                value = self.builder.gep(value, [offset.value])
        if self.routine.is_element(argument):
            return translation.dense(Typed(value, view.kind), [self.operations.constant(1)])
        if not kept:
            zero = self.operations.constant(0)
            return self.operations.applied(operator.getitem, (Typed(value, view.kind), zero))
        shape, steps = ([of[k] for k in kept] for of in (view.shape, view.steps))
        return View(value, view.kind, shape=tuple(shape), steps=tuple(steps))

    def _size(self, size: Dim) -> Typed:
        """Returns a size without axes: a word of the table, or a number."""
        return self.words[size] if size in self.words else self.operations.constant(size)

    def _index(self, index: Dim) -> Typed:
        """Returns a size at this point."""
        if index in self.words or not isinstance(index, Poly):
            return self._size(index)
        total = self.operations.constant(index.constant)
        for atoms, factor in index.terms.items():
            factors = [self.operations.constant(factor), *map(self._atom, atoms)]
            product = reduce(partial(self._applied, operator.mul), factors)
            total = self._applied(operator.add, total, product)
        return total

    def _atom(self, atom: Sym | Opaque) -> Typed:
        if isinstance(atom, Sym):
            return self.places[atom] if atom in self.places else self._size(dims.as_dim(atom))
        first, *others = map(self._index, atom.args)
        if atom.fn == "select":
            values = [other.value for other in others]
            return Typed(self.builder.select(self.operations.truth(first), *values), INDEX)
        function = OPAQUE.get(atom.fn)
        if function is None:
            raise UntranslatedError(f"the function {atom.fn} of sizes")
        for other in others:
            result = self._applied(function, first, other)
            first = Typed(self.operations.cast(result, INDEX), INDEX)
        return first

    def _applied(self, function: Any, *args: Typed) -> Typed:
        return self.operations.applied(function, args)

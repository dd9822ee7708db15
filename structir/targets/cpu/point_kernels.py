"""Kernels that call a function of Python at each point: numba compiles the calls from nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import attrs
import numba
from numba import types
from numba.extending import intrinsic
from numba.np import arrayobj

from structir.ir import dims
from structir.ir.dims import Dim, Opaque, Poly, Sym
from structir.loops.program.buffer import STORED_AS, Buffer
from structir.loops.program.point_text import PointText
from structir.loops.program.routine import BufferPoint, Routine
from structir.system.cache import digest
from structir.targets.cpu.functions import compiled_function, routine_source
from structir.targets.cpu.objects import SOURCE_HEAD

literal: Any = types.literal
make_array: Any = arrayobj.make_array
populate_array: Any = arrayobj.populate_array
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "floordiv": lambda x, y: x // y,
    "floormod": lambda x, y: x % y,
    "min": lambda x, y: x if x < y else y,
    "max": lambda x, y: x if x > y else y,
    "lt": lambda x, y: 1 if x < y else 0,
    "le": lambda x, y: 1 if x <= y else 0,
    "eq": lambda x, y: 1 if x == y else 0,
    "ne": lambda x, y: 1 if x != y else 0,
    "select": lambda test, x, y: x if test != 0 else y,
}


@attrs.frozen(eq=False)
class PointKernel:
    """The kernel of a routine, over a table of its buffers and sizes."""

    routine: Routine

    @property
    def function(self) -> Callable[..., Any]:
        """The function that it calls."""
        return self.routine.function

    @property
    def source(self) -> str:
        """The calls and the function, for readers. It starts with a hash of all of it."""
        text = PointText(self.routine)
        calls = ["for point in range(lo, hi):", *[f"    {line}" for line in text.lines()]]
        lines = [*text.arrays_at(), *calls, *routine_source(self.function).split("\n")]
        shown = "".join([f"# {line}".rstrip() + "\n" for line in lines])
        dtypes = [buffer.dtype for buffer in self.routine.buffers]
        return f"{SOURCE_HEAD}{digest(shown, *dtypes)[:32]}\n{shown}"

    def entry(self) -> Callable[[Any, int, int], None]:
        """Returns the kernel as a function that numba compiles."""
        routine, function = self.routine, compiled_function(self.function)
        kinds = tuple([_kind(argument, routine) for argument in routine.arguments])

        @intrinsic  # type: ignore[untyped-decorator,unused-ignore]
        def call(typing_context: Any, table: Any, point: Any) -> Any:
            callee = typing_context.resolve_value_type(function)
            signature = typing_context.resolve_function_type(callee, kinds, {})

            def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
                at = _Point(context, builder, routine, *args)
                values = map(at.argument, routine.arguments, kinds)
                passed = [
                    context.cast(builder, value, kind, wanted)
                    for value, kind, wanted in zip(values, kinds, signature.args, strict=True)
                ]
                run = context.get_function(callee, signature)
                context.nrt.decref(builder, signature.return_type, run(builder, passed))
                context.add_linking_libs(getattr(run, "libs", ()))
                return context.get_dummy_value()

            return types.none(table, point), generate

        def kernel(table: Any, low: int, high: int) -> None:
            for point in range(low, high):
                call(table, point)  # type: ignore[call-arg,unused-ignore]

        return kernel


def _entries(argument: BufferPoint, routine: Routine) -> tuple[Dim | None, ...]:
    """Returns the entries of a view. Arrays without axes have an axis of size 1."""
    return (*argument.at, None) if routine.is_element(argument) else argument.at


def _kind(argument: Any, routine: Routine) -> Any:
    """Returns the type of an argument: numbers of the program are literals."""
    if isinstance(argument, BufferPoint):
        element = getattr(numba, STORED_AS.get(argument.buffer.dtype, argument.buffer.dtype))
        entries = _entries(argument, routine)
        whole = [k for k, index in enumerate(entries) if index is None]
        if not whole:
            return element
        is_contiguous = whole == [*range(whole[0], len(entries))]
        return types.Array(element, len(whole), "C" if is_contiguous else "A")
    if isinstance(argument, tuple):
        return types.BaseTuple.from_types([_kind(part, routine) for part in argument])  # type: ignore[no-untyped-call]
    if argument is None:
        return types.none
    if isinstance(argument, Poly | float):
        return types.float64 if isinstance(argument, float) else types.int64
    return literal(argument)


class _Point:
    """Emits the arguments of the call at one point."""

    def __init__(
        self, context: Any, builder: Any, routine: Routine, table: Any, point: Any
    ) -> None:
        self.context, self.builder, self.routine, self.table = context, builder, routine, table
        self.words: dict[Buffer | Dim, int] = {
            key: k for k, key in enumerate((*routine.buffers, *routine.sizes))
        }
        self.places: dict[Sym, Any] = {}
        axes = [*routine.extents.items()]
        for axis, extent in axes[:0:-1]:
            size = self.size(extent)
            self.places[axis] = builder.srem(point, size)
            point = builder.sdiv(point, size)
        if axes:
            self.places[axes[0][0]] = point

    def argument(self, argument: Any, kind: Any) -> Any:
        """Emits an argument of a type."""
        if isinstance(argument, BufferPoint):
            return self._view(argument, kind)
        if isinstance(argument, tuple):
            values = map(self.argument, argument, kind.types)
            return self.context.make_tuple(self.builder, kind, [*values])
        if isinstance(argument, Poly):
            return self.index(argument)
        return self.context.get_constant_generic(self.builder, kind, argument)

    def _view(self, argument: BufferPoint, kind: Any) -> Any:
        builder, buffer = self.builder, argument.buffer
        entries, shape = _entries(argument, self.routine), [*map(self.size, buffer.shape)]
        shape += [self._constant(1)] * (len(entries) - len(shape))
        strides = [
            reduce(builder.mul, shape[k + 1 :], self._constant(1)) for k in range(len(shape))
        ]
        address = self._word(buffer.root)
        element = kind.dtype if isinstance(kind, types.Array) else kind
        pointer = builder.inttoptr(address, self.context.get_data_type(element).as_pointer())
        for index, stride in zip(entries, strides, strict=True):
            if index is not None:
                pointer = builder.gep(pointer, [builder.mul(self.index(index), stride)])
        whole = [k for k, index in enumerate(entries) if index is None]
        if not whole:
            return self.context.unpack_value(builder, element, pointer)
        item = self._constant(self.context.get_abi_sizeof(self.context.get_data_type(element)))
        view = make_array(kind)(self.context, builder)
        populate_array(
            view,
            data=pointer,
            shape=[shape[k] for k in whole],
            strides=[builder.mul(strides[k], item) for k in whole],
            itemsize=item,
            meminfo=None,
        )
        return view._getvalue()

    def _constant(self, value: int) -> Any:
        return self.context.get_constant(types.int64, value)

    def _word(self, key: Buffer | Dim) -> Any:
        place = self.builder.gep(self.table, [self._constant(self.words[key])])
        return self.builder.load(place)

    def size(self, size: Dim) -> Any:
        """Emits a size without axes: a word of the table, or a number."""
        return self._word(size) if size in self.words else self._constant(size)  # type: ignore[arg-type]

    def index(self, index: Dim) -> Any:
        """Emits a size at this point."""
        if index in self.words or not isinstance(index, Poly):
            return self.size(index)
        total = self._constant(index.constant)
        for atoms, factor in index.terms.items():
            factors = [self._constant(factor), *map(self._atom, atoms)]
            total = self.builder.add(total, reduce(self.builder.mul, factors))
        return total

    def _atom(self, atom: Sym | Opaque) -> Any:
        if isinstance(atom, Sym):
            return self.places[atom] if atom in self.places else self.size(dims.as_dim(atom))
        args = [*map(self.index, atom.args)]
        if atom.fn in ("min", "max"):
            return reduce(lambda x, y: self._applied(atom.fn, x, y), args)
        return self._applied(atom.fn, *args)

    def _applied(self, fn: str, *args: Any) -> Any:
        signature = types.int64(*[types.int64] * len(args))
        return self.context.compile_internal(self.builder, FUNCTIONS[fn], signature, args)

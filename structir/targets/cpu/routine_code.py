"""Compiles kernels that call Python functions over arrays with numba: the functions, those that
they call, and the calls at each point."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, reduce
from typing import Any

import numba
from numba import njit, types
from numba.core import config
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys  # type: ignore[attr-defined]
from numba.extending import intrinsic
from numba.np import arrayobj

from structir.errors import StructIRError
from structir.ir import dims
from structir.ir.code_hash import is_of_package
from structir.ir.dims import Dim, Opaque, Poly, Sym
from structir.loops.program.buffer import STORED_AS, Buffer
from structir.loops.program.routine import BufferPoint, Routine
from structir.system.locks import new_rlock
from structir.targets.cpu.features import is_host, processor
from structir.targets.cpu.functions import kernel_error, rebind_globals, version_of
from structir.targets.cpu.objects import Loaded, MachineCode
from structir.targets.cpu.pipeline import RoutineCompiler
from structir.targets.cpu.point_kernels import PointKernel
from structir.targets.cpu.registries import read_all

Kinds = tuple[str, ...]
literal: Any = types.literal
make_array: Any = arrayobj.make_array
populate_array: Any = arrayobj.populate_array
options: Any = config
TABLE: Any = types.CPointer(types.int64)  # type: ignore[no-untyped-call]
SIGNATURE = types.void(TABLE, types.int64, types.int64)
OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": RoutineCompiler,
}
CONTRACTED = {"contract"}  # fused multiply-add is allowed
HINT = "use loops over arrays and numbers, and functions of NumPy and math that numba supports"
COLOUR = re.compile("\x1b\\[[0-9;]*m")
DETAILS = ("There are", "During", "File", "- Of which")  # lines of an error of numba
_lock = new_rlock()
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

if not is_host():  # numba would add the features of the host to those of a named CPU
    options.CPU_NAME, options.CPU_FEATURES = processor()


def compiled_function(function: Callable[..., Any]) -> Any:
    """Returns a function that kernels can call, compiled once per combination of dtypes and ranks.

    Functions that it calls by global names are compiled too. Lazy imports of NumPy are resolved.
    """
    with _lock:
        return _compiled(function)


def _compiled(function: Callable[..., Any]) -> Any:
    return _compiled_version(function, version_of(function))


@cache
def _compiled_version(function: Callable[..., Any], _version: str) -> Any:
    return njit(**OPTIONS)(rebind_globals(function, _compiled))


@contextmanager
def reported(function: Callable[..., Any]) -> Iterator[None]:
    """Raises DiagnosticError where numba cannot compile a kernel of another package."""
    try:
        yield
    except Exception as error:  # numba raises several kinds
        if is_of_package(function) or isinstance(error, StructIRError):
            raise
        name = function.__qualname__
        message = f"{name}: numba cannot compile the kernel: {_summary(error)}"
        raise kernel_error(function, message, HINT) from error


def _summary(error: Exception) -> str:
    """Returns the reason in an error of numba, without colours and without where it occurred."""
    if isinstance(error, RecursionError):
        return "it calls itself"
    lines = [COLOUR.sub("", line).strip() for line in str(error).splitlines()]
    lines = [line for line in lines if line and not line.startswith("Failed in")]
    length = next((k for k, line in enumerate(lines) if line.startswith(DETAILS)), len(lines))
    return " ".join(lines[:length]).partition(" Raised from")[0]


@cache
def ready_for_arrays() -> None:
    """Registers the symbols of numba's runtime, through which compiled code allocates arrays."""
    rtsys.initialize(cpu_target.target_context)


def routine_code(kernel: PointKernel, symbol: str) -> Loaded:
    """Compiles a kernel under a symbol."""
    start = time.perf_counter()
    with reported(kernel.function):
        function = _entry(kernel)
        function.__qualname__ = symbol
        read_all()  # numba reads registries in parts, and an interrupt would lose one
        dispatcher = njit(SIGNATURE, fastmath=CONTRACTED, **OPTIONS)(function)
        compiled: list[Any] = list(dispatcher.overloads.values())
    library, name = compiled[0].library, compiled[0].fndesc.llvm_func_name
    address = library.get_pointer_to_function(name)
    code = _code_of_library(library, name, time.perf_counter() - start)
    return Loaded(code, (address,), library, from_disk=False)


def scalar_bitcode(function: Callable[..., Any], name: str, result: str, kinds: Kinds) -> bytes:
    """Compiles a scalar function of another package under a name; returns its bitcode."""
    signature = getattr(types, result)(*[getattr(types, kind) for kind in kinds])
    with reported(function):
        callee = compiled_function(function)
        entries = {1: lambda x: callee(x), 2: lambda x, y: callee(x, y)}
        read_all()
        entry: Any = numba.cfunc(signature, fastmath=CONTRACTED, error_model="numpy")(
            entries[len(kinds)]
        )
        module = entry._library._final_module.clone()
    module.get_function(entry.native_name).name = name
    bitcode: bytes = module.as_bitcode()
    return bitcode


def _code_of_library(library: Any, symbol: str, seconds: float) -> MachineCode:
    """Returns the machine code of a numba code library."""
    functions = list(library._final_module.functions)
    declared = [f.name for f in functions if f.is_declaration]
    needs = tuple([name for name in declared if not name.startswith("llvm.")])
    defined = {f.name for f in functions if not f.is_declaration}
    data = bytes(library._get_compiled_object())
    return MachineCode(data, (symbol,), needs, defined != {symbol}, seconds)


def _entry(kernel: PointKernel) -> Callable[[Any, int, int], None]:
    """Returns the kernel as a function that numba compiles."""
    routine, function = kernel.routine, compiled_function(kernel.function)
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

    def run(table: Any, low: int, high: int) -> None:
        for point in range(low, high):
            call(table, point)  # type: ignore[call-arg,unused-ignore]

    return run


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

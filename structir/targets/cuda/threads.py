"""The intrinsics of threads and blocks in LLVM IR: thread indices, counts, barriers, arrays, and
shuffles between lanes of a warp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import attrs
from llvmlite import ir
from numba import types

from structir.targets.cpu.arithmetic import declared
from structir.targets.cpu.operations import Operations, Typed, UntranslatedError

WORD, LANE = ir.IntType(64), ir.IntType(32)
REGISTER = "llvm.nvvm.read.ptx.sreg."
BARRIER = "llvm.nvvm.barrier0"
SHUFFLES = {"xor": ("bfly", 31), "down": ("down", 31), "up": ("up", 0), "": ("idx", 31)}


@attrs.frozen
class Register:
    """A special register that each thread reads."""

    name: str

    def read(self, operations: Operations) -> Typed:
        """Returns its value as an index."""
        builder = operations.builder
        function = declared(builder.module, ir.FunctionType(LANE, []), REGISTER + self.name)
        return Typed(builder.zext(builder.call(function, []), WORD), types.int64)


@attrs.frozen(eq=False)
class InlinedFunction:
    """A function of a thread that is inlined at its calls."""

    write: Callable[[Operations, Sequence[Typed]], Typed]


class ArrayMaker:
    """`cuda.shared.array` or `cuda.local.array`, whose length and dtype are constants."""


SHARED_ARRAY, LOCAL_ARRAY = ArrayMaker(), ArrayMaker()


class Unrolled:
    """`unrolled(4)`: a range whose iterations are unrolled."""


UNROLLED = Unrolled()


def _axes(name: str) -> SimpleNamespace:
    return SimpleNamespace(**{axis: Register(f"{name}.{axis}") for axis in "xyz"})


THREAD, BLOCK, THREADS, BLOCKS = (_axes(n) for n in ("tid", "ctaid", "ntid", "nctaid"))


def _product(operations: Operations, left: Register, right: Register) -> Any:
    sides = [register.read(operations).value for register in (left, right)]
    return operations.builder.mul(*sides, flags=("nuw", "nsw"))


def _grid(operations: Operations, args: Sequence[Typed]) -> Typed:
    """Returns the index of the thread among those of all blocks."""
    before = _product(operations, BLOCK.x, THREADS.x)
    own = THREAD.x.read(operations).value
    return Typed(operations.builder.add(before, own, flags=("nuw", "nsw")), types.int64)


def _gridsize(operations: Operations, args: Sequence[Typed]) -> Typed:
    """Returns the number of threads of all blocks."""
    return Typed(_product(operations, THREADS.x, BLOCKS.x), types.int64)


def _wait(operations: Operations, args: Sequence[Typed]) -> Typed:
    """Waits for all threads of the block."""
    builder = operations.builder
    builder.call(declared(builder.module, ir.FunctionType(ir.VoidType(), []), BARRIER), [])
    return operations.nothing()


def _shuffle(mode: str) -> InlinedFunction:
    """Returns the value of another lane; values of more than 32 bits are sent in two parts."""
    name, clamp = SHUFFLES[mode]

    def write(operations: Operations, args: Sequence[Typed]) -> Typed:
        mask, value, lane = args
        builder = operations.builder
        shape = ir.FunctionType(LANE, [LANE] * 4)
        function = declared(builder.module, shape, f"llvm.nvvm.shfl.sync.{name}.i32")
        rest = [builder.trunc(lane.value, LANE), ir.Constant(LANE, clamp)]
        members = builder.trunc(mask.value, LANE)
        parts = [
            builder.call(function, [members, part, *rest]) for part in _parts(builder, value.value)
        ]
        return Typed(_whole(builder, parts, value.value.type), value.kind)

    return InlinedFunction(write)


def _width(kind: Any) -> int:
    widths = {ir.FloatType(): 32, ir.DoubleType(): 64}
    width = kind.width if isinstance(kind, ir.IntType) else widths.get(kind)
    if width is None:
        raise UntranslatedError(f"a lane hands over {kind}")
    return int(width)


def _parts(builder: Any, value: Any) -> list[Any]:
    """Splits a value into words of 32 bits."""
    width = _width(value.type)
    if not isinstance(value.type, ir.IntType):
        value = builder.bitcast(value, ir.IntType(width))
    if width < 32:
        return [builder.zext(value, LANE)]
    if width == 32:
        return [value]
    high = builder.lshr(value, ir.Constant(WORD, 32))
    return [builder.trunc(value, LANE), builder.trunc(high, LANE)]


def _whole(builder: Any, parts: list[Any], kind: Any) -> Any:
    width = _width(kind)
    value = parts[0]
    if width < 32:
        value = builder.trunc(value, ir.IntType(width))
    if width == 64:
        low, high = [builder.zext(part, WORD) for part in parts]
        value = builder.or_(low, builder.shl(high, ir.Constant(WORD, 32)))
    return value if isinstance(kind, ir.IntType) else builder.bitcast(value, kind)


def _add_product(operations: Operations, args: Sequence[Typed]) -> Typed:
    """Adds a product to a sum, for floats as a fused multiply-add."""
    builder, (total, left, right) = operations.builder, [arg.value for arg in args]
    kind = total.type
    if isinstance(kind, ir.IntType):
        return Typed(builder.add(total, builder.mul(left, right)), args[0].kind)
    name = f"llvm.fma.f{_width(kind)}"
    function = declared(builder.module, ir.FunctionType(kind, [kind] * 3), name)
    return Typed(builder.call(function, [left, right, total]), args[0].kind)


def _unsigned(name: str) -> InlinedFunction:
    """Divides numbers that are not negative; the divisor is not 0."""

    def write(operations: Operations, args: Sequence[Typed]) -> Typed:
        builder, (number, size) = operations.builder, [arg.value for arg in args]
        none = builder.icmp_unsigned("==", size, ir.Constant(WORD, 0))
        size = builder.select(none, ir.Constant(WORD, 1), size)
        return Typed(getattr(builder, name)(number, size), types.int64)

    return InlinedFunction(write)


def _wrapping(instruction: str) -> InlinedFunction:
    """Arithmetic of int64 that wraps around."""

    def write(operations: Operations, args: Sequence[Typed]) -> Typed:
        sides = [operations.cast(arg, types.int64) for arg in args]
        return Typed(getattr(operations.builder, instruction)(*sides), types.int64)

    return InlinedFunction(write)


def _power_of_two(operations: Operations, args: Sequence[Typed]) -> Typed:
    """Returns 2 to the power of a float32 by the GPU's instruction, accurate to one or two bits."""
    (given,), single = args, ir.FloatType()
    function = declared(
        operations.builder.module, ir.FunctionType(single, [single]), "llvm.exp2.f32"
    )
    value = operations.cast(given, types.float32)
    return Typed(operations.builder.call(function, [value]), types.float32)


OF_INDICES = {"times": _unsigned("udiv"), "left_over": _unsigned("urem")}
WRITTEN = {
    **OF_INDICES,
    "add_product": InlinedFunction(_add_product),
    "power_of_two": InlinedFunction(_power_of_two),
    **{f"wrapping_{name}": _wrapping(name) for name in ("add", "sub", "mul")},
}
CUDA = SimpleNamespace(
    threadIdx=THREAD,
    blockIdx=BLOCK,
    blockDim=THREADS,
    gridDim=BLOCKS,
    grid=InlinedFunction(_grid),
    gridsize=InlinedFunction(_gridsize),
    syncthreads=InlinedFunction(_wait),
    shared=SimpleNamespace(array=SHARED_ARRAY),
    local=SimpleNamespace(array=LOCAL_ARRAY),
    **{f"shfl_{mode}_sync" if mode else "shfl_sync": _shuffle(mode) for mode in SHUFFLES},
)

"""Matrix products by cuBLAS, in the place of the kernels that make them: floats of all widths,
whose operands lie along rows or along columns, and what follows them at each element."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from itertools import product as points
from typing import Any

import attrs
import numpy as np

from structir.errors import StructIRError

Product = Any  # a `device_text.Product` with numbers for all sizes,
Steps = Any  # and the `device_text.Steps` of its operands

FLOATS = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}  # `cudaDataType_t`
BYTES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2}
SINGLE, DOUBLE, ROUNDED = 68, 70, 77  # `cublasComputeType_t`: of float32, float64 and tf32
EPILOGUES = {
    "": "DEFAULT",
    "bias": "BIAS",
    "relu": "RELU",
    "bias_relu": "RELU_BIAS",
    "gelu": "GELU",
    "bias_gelu": "GELU_BIAS",
}
WORKSPACE = 1 << 25  # bytes that the library may use at a time
FINEST, COARSEST = 1, 256  # bytes that operands may be aligned to
NOT_SUPPORTED = 15  # `cublasStatus_t`
MOST = (1 << 31) - 1


@attrs.frozen
class Operand:
    """A matrix as cuBLAS sees it, by columns: as it lies, or transposed."""

    transposed: bool
    rows: int
    columns: int
    step: int  # from a column to the next one


def operand(steps: Steps, rows: int, columns: int) -> Operand | None:
    """The transpose of a matrix of rows, as cuBLAS sees it; None where it has gaps within lines."""
    if steps.second == 1 or columns == 1:
        return _operand(False, steps.first, columns, rows)
    if steps.first == 1 or rows == 1:
        return _operand(True, steps.second, rows, columns)
    return None


def _operand(transposed: bool, step: int, line: int, lines: int) -> Operand | None:
    """Lines that overlap are none of a matrix; of a single one the step does not matter."""
    if lines > 1 and not line <= step <= MOST:
        return None
    return Operand(transposed, line, lines, step if lines > 1 else line)


@attrs.frozen
class Call:
    """A product whose operands and result fit. The library has columns where the program has rows:
    it makes the transpose of the result, from those of the right one and the left one."""

    product: Product
    left: Operand
    right: Operand
    out: Operand

    @property
    def sides(self) -> tuple[tuple[Steps, Operand], ...]:
        """What is multiplied and what that gives, in the library's order."""
        product = self.product
        return ((product.right, self.right), (product.left, self.left), (product.out, self.out))

    def places(self, addresses: list[int]) -> Iterator[list[int]]:
        """Where these begin, and the bias, at each point of all outer axes but the last one."""
        steps = [side for side, _ in self.sides]
        steps += [self.product.bias] if self.product.bias is not None else []
        size = BYTES[self.product.dtype]
        for at in points(*[range(count) for count in self.product.outer[:-1]]):
            moved = [sum([i * o for i, o in zip(at, s.outer, strict=False)]) for s in steps]
            pairs = zip(steps, moved, strict=True)
            yield [addresses[s.pointer] + size * (s.start + offset) for s, offset in pairs]


def call_of(product: Product) -> Call | None:
    """The product as a call of cuBLAS, if it can be one; its transpose where the result lies along
    columns."""
    m, n, k = product.m, product.n, product.k
    if product.dtype not in FLOATS or not 1 <= min(m, n, k) <= max(m, n, k) <= MOST:
        return None
    out = operand(product.out, m, n)
    if out is not None and out.transposed:
        product, m, n = _transposed(product), n, m
        out = operand(product.out, m, n)
    left, right = operand(product.left, m, k), operand(product.right, k, n)
    if left is None or right is None or out is None or out.transposed:
        return None
    fits = product.bias is None or _is_along_rows(product.bias, product)
    return Call(product, left, right, out) if fits else None


def _transposed(product: Product) -> Product:
    def turned(steps: Steps) -> Steps:
        return attrs.evolve(steps, first=steps.second, second=steps.first)

    left, right, out = turned(product.right), turned(product.left), turned(product.out)
    bias = None if product.bias is None else turned(product.bias)
    sizes = {"m": product.n, "n": product.m}
    return attrs.evolve(product, left=left, right=right, out=out, bias=bias, **sizes)


def _is_along_rows(bias: Steps, product: Product) -> bool:
    """Whether each row of the result gets the same bias, which lies without gaps."""
    return bool((bias.first == 0 or product.m == 1) and (bias.second == 1 or product.n == 1))


class Library:
    """cuBLAS on a card. `binding` is nvmath's of its part for single products; `memory` gives it
    room to work in on a stream."""

    def __init__(self, binding: Any, memory: Callable[[int, int], Any]) -> None:
        self.binding, self.memory = binding, memory
        self.handle = self.asked("its start", binding.create)
        self._lock = threading.RLock()
        self._rooms: dict[int, Any] = {}
        self._algorithms: dict[Any, Any] = {}

    def launcher(self, product: Product, addresses: list[int], tf32: bool, stream: int) -> Any:
        """What makes a product on a stream; None where a kernel must."""
        call = call_of(product)
        if call is None:
            return None
        made = Multiplication(self, call, addresses, tf32)
        return made.on(stream) if made.algorithm is not None else None

    def asked(self, what: str, function: Callable[..., Any], *values: Any) -> Any:
        """What a function of the library gives, or its error in words."""
        try:
            return function(*values)
        except Exception as error:  # the binding has several kinds, and some are of loading it
            raise StructIRError(f"cuBLAS: {what} failed: {error}") from error

    def room(self, stream: int, size: int) -> int:
        """Where the library may work on a stream, whose products come one after another."""
        if size == 0:
            return 0
        with self._lock:
            if stream not in self._rooms:
                self._rooms[stream] = self.memory(WORKSPACE, stream)
            return int(self._rooms[stream].address)

    def algorithm(self, key: Any, found: Callable[[], Any]) -> Any:
        """How products of a kind are made: the library is asked once."""
        with self._lock:
            if key not in self._algorithms:
                self._algorithms[key] = found()
            return self._algorithms[key]


class Multiplication:
    """A product on given memory, as the library's descriptions of it."""

    def __init__(self, library: Library, call: Call, addresses: list[int], tf32: bool) -> None:
        self.library, self.binding, self.call = library, library.binding, call
        self._made: list[tuple[Callable[[int], None], int]] = []
        weakref.finalize(self, _destroyed, self._made).atexit = False
        dtype = call.product.dtype
        wide = dtype == "float64"
        self.compute = DOUBLE if wide else ROUNDED if tf32 and dtype == "float32" else SINGLE
        self.scale = FLOATS["float64" if wide else "float32"]
        number = ctypes.c_double if wide else ctypes.c_float
        self.one, self.none = number(1.0), number(0.0)
        places = list(call.places(addresses))
        self.layouts = [self._layout(*side) for side in call.sides]
        self.parts = [(self._operation(p[3] if p[3:] else 0), p[:3]) for p in places]
        aligned = tuple([_alignment([p[i] for p in places]) for i in range(3)])
        key = (call, self.compute, aligned)
        self.algorithm = library.algorithm(key, lambda: self._algorithm(aligned))

    def _layout(self, steps: Steps, seen: Operand) -> int:
        """How a matrix lies, and those that follow it along the last outer axis."""
        binding, product = self.binding, self.call.product
        shape = (FLOATS[product.dtype], seen.rows, seen.columns, seen.step)
        made: int = self._asked("a layout", binding.matrix_layout_create, *shape)
        self._made.append((binding.matrix_layout_destroy, made))
        names = binding.MatrixLayoutAttribute
        if product.outer:
            setting = (
                binding.get_matrix_layout_attribute_dtype,
                binding.matrix_layout_set_attribute,
            )
            self._set(setting, made, names.BATCH_COUNT, product.outer[-1])
            self._set(setting, made, names.STRIDED_BATCH_OFFSET, steps.outer[-1])
        return made

    def _operation(self, bias: int) -> int:
        """What is done with the matrices, and with what that gives."""
        binding, product = self.binding, self.call.product
        made: int = self._asked("a product", binding.matmul_desc_create, self.compute, self.scale)
        self._made.append((binding.matmul_desc_destroy, made))
        names = binding.MatmulDescAttribute
        values = {
            names.TRANSA: int(self.call.right.transposed),
            names.TRANSB: int(self.call.left.transposed),
            names.EPILOGUE: int(getattr(binding.Epilogue, EPILOGUES[product.epilogue])),
        }
        if bias:
            values[names.BIAS_POINTER] = bias
            values[names.BIAS_BATCH_STRIDE] = (product.bias.outer or (0,))[-1]
        setting = (binding.get_matmul_desc_attribute_dtype, binding.matmul_desc_set_attribute)
        for name, value in values.items():
            self._set(setting, made, name, value)
        return made

    def _algorithm(self, aligned: tuple[int, ...]) -> Any:
        """What the library takes for the best way; None where it has none."""
        binding = self.binding
        preference = self._asked("a preference", binding.matmul_preference_create)
        self._made.append((binding.matmul_preference_destroy, preference))
        names = binding.MatmulPreferenceAttribute
        left, right, out = aligned
        values = {
            names.MAX_WORKSPACE_BYTES: WORKSPACE,
            # parts of a sum are put together as they are computed, before they are rounded
            names.REDUCTION_SCHEME_MASK: int(binding.ReductionScheme.COMPUTE_TYPE),
            names.MIN_ALIGNMENT_A_BYTES: left,
            names.MIN_ALIGNMENT_B_BYTES: right,
            names.MIN_ALIGNMENT_C_BYTES: out,
            names.MIN_ALIGNMENT_D_BYTES: out,
        }
        widths = binding.get_matmul_preference_attribute_dtype
        for name, value in values.items():
            self._set((widths, binding.matmul_preference_set_attribute), preference, name, value)
        found = np.zeros(1, binding.matmul_heuristic_result_dtype)
        count = np.zeros(1, np.int32)
        a, b, d = self.layouts
        wanted = (self.parts[0][0], a, b, d, d, preference, 1, found.ctypes.data, count.ctypes.data)
        try:
            binding.matmul_algo_get_heuristic(self.library.handle, *wanted)
        except Exception as error:
            if getattr(error, "status", None) == NOT_SUPPORTED:
                return None
            raise StructIRError(f"cuBLAS: choosing a way failed: {error}") from error
        return found if count[0] and found["state"][0] == 0 else None

    def on(self, stream: int) -> Callable[[int], None]:
        """What makes the product with the room that the library has on a stream."""
        size = int(self.algorithm["workspace_size"][0])
        room = (self.library.room(stream, size), size)
        one, none = ctypes.addressof(self.one), ctypes.addressof(self.none)
        (a, b, d), way = self.layouts, self.algorithm.ctypes.data
        calls = [
            (operation, one, left, a, right, b, none, out, d, out, d, way, *room)
            for operation, (left, right, out) in self.parts
        ]
        return lambda to: self._launch(calls, to)

    def _launch(self, calls: Sequence[tuple[int, ...]], stream: Any) -> None:
        for values in calls:
            values = (self.library.handle, *values, int(stream))
            self._asked("a product", self.binding.matmul, *values)

    def _asked(self, what: str, function: Callable[..., Any], *values: Any) -> Any:
        return self.library.asked(what, function, *values)

    def _set(self, setting: Any, made: int, name: Any, value: int) -> None:
        width, write = setting
        held = np.array([value], width(name))
        self._asked(f"setting {name.name}", write, made, name, held.ctypes.data, held.nbytes)


def _alignment(addresses: list[int]) -> int:
    """To how many bytes all of these are aligned."""
    return min([COARSEST, *[max(address & -address, FINEST) for address in addresses]])


def _destroyed(made: list[tuple[Callable[[int], None], int]]) -> None:
    for destroy, what in made:
        destroy(what)

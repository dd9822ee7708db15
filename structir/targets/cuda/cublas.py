"""Matrix products by cuBLAS in place of kernels: floats of all widths, row-major or column-major
operands, and supported epilogues."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from structir.errors import StructIRError
from structir.system.locks import new_rlock
from structir.targets.cuda.by_columns import FLOATS, CublasOperand, CublasProduct, call_of

SINGLE, DOUBLE, ROUNDED = 68, 70, 77  # `cublasComputeType_t`: of float32, float64 and tf32
EPILOGUES = {
    "": "DEFAULT",
    "bias": "BIAS",
    "relu": "RELU",
    "bias_relu": "RELU_BIAS",
    "gelu": "GELU",
    "bias_gelu": "GELU_BIAS",
}
WORKSPACE = 1 << 25  # bytes of workspace that cuBLAS may use
FINEST, COARSEST = 1, 256  # range of the alignment of operands, in bytes
NOT_SUPPORTED = 15  # `cublasStatus_t`


class Library:
    """cuBLAS on a GPU. `binding` is nvmath's binding of cuBLASLt; `memory` allocates its workspace
    on a stream."""

    def __init__(self, binding: Any, memory: Callable[[int, int], Any]) -> None:
        self.binding, self.memory = binding, memory
        self.handle = self.checked("initialisation", binding.create)
        self._lock = new_rlock()
        self._rooms: dict[int, Any] = {}
        self._algorithms: dict[Any, Any] = {}

    def launcher(self, product: Any, addresses: list[int], tf32: bool, stream: int) -> Any:
        """Returns a function that computes a product on a stream, or None if a kernel is needed."""
        call = call_of(product)
        if call is None:
            return None
        multiplication = Multiplication(self, call, addresses, tf32)
        return multiplication.on(stream) if multiplication.algorithm is not None else None

    def checked(self, what: str, function: Callable[..., Any], *values: Any) -> Any:
        """Returns the result of a library function, or raises its error."""
        try:
            return function(*values)
        except Exception as error:  # the binding has several error classes, some from loading it
            raise StructIRError(f"cuBLAS: {what} failed: {error}") from error

    def room(self, stream: int, size: int) -> int:
        """Returns the address of the workspace of a stream, whose products run one after
        another."""
        if size == 0:
            return 0
        with self._lock:
            if stream not in self._rooms:
                self._rooms[stream] = self.memory(WORKSPACE, stream)
            return int(self._rooms[stream].address)

    def algorithm(self, key: Any, search: Callable[[], Any]) -> Any:
        """Returns the memoized algorithm for a kind of product."""
        with self._lock:
            if key not in self._algorithms:
                self._algorithms[key] = search()
            return self._algorithms[key]


class Multiplication:
    """A product on given memory, as descriptors of the library."""

    def __init__(
        self, library: Library, call: CublasProduct, addresses: list[int], tf32: bool
    ) -> None:
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

    def _layout(self, steps: Any, seen: CublasOperand) -> int:
        """Returns the layout of a matrix, batched along the last outer axis."""
        binding, product = self.binding, self.call.product
        shape = (FLOATS[product.dtype], seen.rows, seen.columns, seen.step)
        layout: int = self._checked("a layout", binding.matrix_layout_create, *shape)
        self._made.append((binding.matrix_layout_destroy, layout))
        names = binding.MatrixLayoutAttribute
        if product.outer:
            setting = (
                binding.get_matrix_layout_attribute_dtype,
                binding.matrix_layout_set_attribute,
            )
            self._set(setting, layout, names.BATCH_COUNT, product.outer[-1])
            self._set(setting, layout, names.STRIDED_BATCH_OFFSET, steps.outer[-1])
        return layout

    def _operation(self, bias: int) -> int:
        """Returns the descriptor of the operation and its epilogue."""
        binding, product = self.binding, self.call.product
        description: int = self._checked(
            "a product", binding.matmul_desc_create, self.compute, self.scale
        )
        self._made.append((binding.matmul_desc_destroy, description))
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
            self._set(setting, description, name, value)
        return description

    def _algorithm(self, aligned: tuple[int, ...]) -> Any:
        """Returns the algorithm that the library's heuristic chooses, or None if there is none."""
        binding = self.binding
        preference = self._checked("a preference", binding.matmul_preference_create)
        self._made.append((binding.matmul_preference_destroy, preference))
        names = binding.MatmulPreferenceAttribute
        left, right, out = aligned
        values = {
            names.MAX_WORKSPACE_BYTES: WORKSPACE,
            # split-k partial sums are added in the computation's dtype, before rounding
            names.REDUCTION_SCHEME_MASK: int(binding.ReductionScheme.COMPUTE_TYPE),
            names.MIN_ALIGNMENT_A_BYTES: left,
            names.MIN_ALIGNMENT_B_BYTES: right,
            names.MIN_ALIGNMENT_C_BYTES: out,
            names.MIN_ALIGNMENT_D_BYTES: out,
        }
        widths = binding.get_matmul_preference_attribute_dtype
        for name, value in values.items():
            self._set((widths, binding.matmul_preference_set_attribute), preference, name, value)
        heuristic = np.zeros(1, binding.matmul_heuristic_result_dtype)
        count = np.zeros(1, np.int32)
        a, b, d = self.layouts
        query = (
            self.parts[0][0],
            a,
            b,
            d,
            d,
            preference,
            1,
            heuristic.ctypes.data,
            count.ctypes.data,
        )
        try:
            binding.matmul_algo_get_heuristic(self.library.handle, *query)
        except Exception as error:
            if getattr(error, "status", None) == NOT_SUPPORTED:
                return None
            raise StructIRError(f"cuBLAS: choosing an algorithm failed: {error}") from error
        return heuristic if count[0] and heuristic["state"][0] == 0 else None

    def on(self, stream: int) -> Callable[[int], None]:
        """Returns a function that runs the product with the workspace of a stream."""
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
            self._checked("a product", self.binding.matmul, *values)

    def _checked(self, what: str, function: Callable[..., Any], *values: Any) -> Any:
        return self.library.checked(what, function, *values)

    def _set(self, setting: Any, description: int, name: Any, value: int) -> None:
        width, write = setting
        held = np.array([value], width(name))
        self._checked(
            f"setting {name.name}", write, description, name, held.ctypes.data, held.nbytes
        )


def _alignment(addresses: list[int]) -> int:
    """Returns the largest alignment, in bytes, of all addresses."""
    return min([COARSEST, *[max(address & -address, FINEST) for address in addresses]])


def _destroyed(resources: list[tuple[Callable[[int], None], int]]) -> None:
    for destroy, what in resources:
        destroy(what)

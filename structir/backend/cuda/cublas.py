"""Matrix products by cuBLAS, in the place of the kernels that make them: floats of all widths,
whose operands lie along rows or along columns."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product as points
from typing import Any

import attrs

Product = Any  # a `device_text.Product` with numbers for all sizes,
Steps = Any  # and the `device_text.Steps` of its operands

REAL = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}  # `cudaDataType_t`
BYTES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2}
PLAIN, TRANSPOSED = 0, 1
WORKSPACE = 1 << 25  # bytes: what the library may need, also while a graph is captured
MOST = (1 << 31) - 1


@attrs.frozen
class Operand:
    """A matrix as cuBLAS sees it, by columns: as it lies, or transposed."""

    operation: int
    step: int


def operand(steps: Steps, rows: int, columns: int) -> Operand | None:
    """The transpose of a matrix of rows, as cuBLAS sees it; None where it has gaps within lines."""
    if steps.second == 1 or columns == 1:
        return _operand(PLAIN, steps.first, columns, rows)
    if steps.first == 1 or rows == 1:
        return _operand(TRANSPOSED, steps.second, rows, columns)
    return None


def _operand(operation: int, step: int, line: int, lines: int) -> Operand | None:
    """Lines that overlap are none of a matrix; of a single one the step does not matter."""
    if lines > 1 and not line <= step <= MOST:
        return None
    return Operand(operation, max(step if lines > 1 else line, 1))


@attrs.frozen
class Call:
    """A product whose operands and result fit."""

    product: Product
    left: Operand
    right: Operand
    out: Operand

    def parts(self) -> Iterator[tuple[int, int, int]]:
        """Where left, right and result begin, in elements, at each point of all outer axes but the
        last one."""
        sides = (self.product.left, self.product.right, self.product.out)
        for at in points(*[range(size) for size in self.product.outer[:-1]]):
            left, right, out = [
                s.start + sum([i * o for i, o in zip(at, s.outer, strict=False)]) for s in sides
            ]
            yield left, right, out


def call_of(product: Product) -> Call | None:
    """The product as a call of cuBLAS, if it can be one."""
    m, n, k = product.m, product.n, product.k
    left, right = operand(product.left, m, k), operand(product.right, k, n)
    out = operand(product.out, m, n)
    fits = product.dtype in REAL and max(m, n, k) <= MOST
    if left is None or right is None or out is None or not fits or out.operation != PLAIN:
        return None
    return Call(product, left, right, out)


class Library:
    """cuBLAS on a card. `binding` is nvmath's; `memory` gives it room to work in."""

    def __init__(self, binding: Any, memory: Callable[[int], Any]) -> None:
        self.binding = binding
        self.handle = binding.create()
        self.workspace = memory(WORKSPACE)
        self._lock = threading.Lock()
        self._single = ((ctypes.c_float * 1)(1.0), (ctypes.c_float * 1)(0.0))
        self._double = ((ctypes.c_double * 1)(1.0), (ctypes.c_double * 1)(0.0))

    def launcher(self, product: Product, addresses: list[int], tf32: bool) -> Any:
        """What makes a product on a stream; None where a kernel must."""
        call = call_of(product)
        return None if call is None else partial(self._run, call, addresses, tf32)

    def _run(self, call: Call, addresses: list[int], tf32: bool, stream: Any) -> None:
        product, size = call.product, BYTES[call.product.dtype]
        sides = (product.left, product.right, product.out)
        steps = [s.outer[-1] if s.outer else 0 for s in sides]
        count = product.outer[-1] if product.outer else 1
        bases = [addresses[side.pointer] for side in sides]
        with self._lock:
            self.binding.set_stream(self.handle, int(stream))
            self.binding.set_workspace(self.handle, self.workspace.address, WORKSPACE)
            for starts in call.parts():
                places = [b + size * s for b, s in zip(bases, starts, strict=True)]
                self._multiply(call, places, steps, count, tf32)

    def _multiply(
        self, call: Call, places: list[int], steps: list[int], count: int, tf32: bool
    ) -> None:
        """The transposes, as cuBLAS has columns where the program has rows: the right one first."""
        product, kind = call.product, REAL[call.product.dtype]
        wide = product.dtype == "float64"
        one, none = [ctypes.addressof(n) for n in (self._double if wide else self._single)]
        compute = self.binding.ComputeType
        exact = compute.COMPUTE_64F if wide else compute.COMPUTE_32F
        fast = tf32 and product.dtype == "float32"
        left, right, out = places
        self.binding.gemm_strided_batched_ex(
            self.handle,
            call.right.operation,
            call.left.operation,
            product.n,
            product.m,
            product.k,
            one,
            right,
            kind,
            call.right.step,
            steps[1],
            left,
            kind,
            call.left.step,
            steps[0],
            none,
            out,
            kind,
            call.out.step,
            steps[2],
            count,
            int(compute.COMPUTE_32F_FAST_TF32 if fast else exact),
            int(self.binding.GemmAlgo.DEFAULT),
        )

"""Matrix products in the column-major layout of cuBLAS."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product as points
from typing import Any

import attrs

Product = Any  # a `device_text.Product` with numbers for all sizes,
Steps = Any  # and the `device_text.Steps` of its operands

FLOATS = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}  # `cudaDataType_t`
BYTES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2}
MOST = (1 << 31) - 1


@attrs.frozen
class CublasOperand:
    """A column-major matrix for cuBLAS, plain or transposed."""

    transposed: bool
    rows: int
    columns: int
    step: int  # stride from a column to the next one


def operand(steps: Steps, rows: int, columns: int) -> CublasOperand | None:
    """Returns the transpose of a row-major matrix as cuBLAS reads it, or None if its lines have
    gaps."""
    if steps.second == 1 or columns == 1:
        return _operand(False, steps.first, columns, rows)
    if steps.first == 1 or rows == 1:
        return _operand(True, steps.second, rows, columns)
    return None


def _operand(transposed: bool, step: int, line: int, lines: int) -> CublasOperand | None:
    """Rejects overlapping lines; the stride of a single line does not matter."""
    if lines > 1 and not line <= step <= MOST:
        return None
    return CublasOperand(transposed, line, lines, step if lines > 1 else line)


@attrs.frozen
class CublasProduct:
    """A product whose operands and result fit. cuBLAS is column-major, so it computes the
    transposed result from the transposed operands in reverse order."""

    product: Product
    left: CublasOperand
    right: CublasOperand
    out: CublasOperand

    @property
    def sides(self) -> tuple[tuple[Steps, CublasOperand], ...]:
        """The operands and the result, in the order of cuBLAS."""
        product = self.product
        return ((product.right, self.right), (product.left, self.left), (product.out, self.out))

    def places(self, addresses: list[int]) -> Iterator[list[int]]:
        """Yields the addresses of the operands, the result and the bias at each point of the outer
        axes except the last one."""
        steps = [side for side, _ in self.sides]
        steps += [self.product.bias] if self.product.bias is not None else []
        size = BYTES[self.product.dtype]
        for at in points(*[range(count) for count in self.product.outer[:-1]]):
            moved = [sum([i * o for i, o in zip(at, s.outer, strict=False)]) for s in steps]
            pairs = zip(steps, moved, strict=True)
            yield [addresses[s.pointer] + size * (s.start + offset) for s, offset in pairs]


def call_of(product: Product) -> CublasProduct | None:
    """Returns the product as a call of cuBLAS if there is one, transposed if the result is column-
    major."""
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
    return CublasProduct(product, left, right, out) if fits else None


def _transposed(product: Product) -> Product:
    def turned(steps: Steps) -> Steps:
        return attrs.evolve(steps, first=steps.second, second=steps.first)

    left, right, out = turned(product.right), turned(product.left), turned(product.out)
    bias = None if product.bias is None else turned(product.bias)
    sizes = {"m": product.n, "n": product.m}
    return attrs.evolve(product, left=left, right=right, out=out, bias=bias, **sizes)


def _is_along_rows(bias: Steps, product: Product) -> bool:
    """Whether each row of the result adds the same dense bias."""
    return bool((bias.first == 0 or product.m == 1) and (bias.second == 1 or product.n == 1))

"""Defines a StructInfo subclass outside of the package: a sparse CSR matrix, and an op on it.

A matrix in CSR (compressed sparse row) form has three arrays: the start of each row, the column of
each entry, and the values. The sum of two matrices with equal index arrays has the same index
arrays, and is computed value by value. In any other sum, the number of entries is data-dependent.
The subclass below expresses both. Its fields define parsing, printing, equality, joins and checks.

    python examples/sparse_csr.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

import structir
from structir import opaque_op
from structir.analysis import FAIL_L0, base_check, check_well_formed
from structir.errors import Diagnostic, StructInfoError
from structir.ir import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    struct_info,
)
from structir.ir.dims import Dim, equal


@struct_info
class SparseCSRTensorStructInfo(StructInfo):
    """A sparse matrix. `pattern` identifies its index arrays: equal patterns, equal arrays."""

    rows: Dim
    cols: Dim
    dtype: str | None = None
    entries: Dim | None = None
    pattern: Dim | None = None

    def parts(self) -> TupleStructInfo:
        """Returns the run-time representation: shape, pattern, and the three arrays."""
        return TupleStructInfo(
            (
                ShapeStructInfo((self.rows, self.cols)),
                PrimStructInfo("int64", self.pattern),
                TensorStructInfo((self.rows + 1,), "int64"),
                _vector(self.entries, "int64"),
                _vector(self.entries, self.dtype),
            )
        )


def _vector(size: Dim | None, dtype: str | None) -> TensorStructInfo:
    return TensorStructInfo(None if size is None else (size,), dtype, 1)


def sum_info(x: StructInfo, y: StructInfo) -> StructInfo:
    """Infers a sum: the shape of the operands; entries and pattern if both have one pattern."""
    if not isinstance(x, SparseCSRTensorStructInfo) or not isinstance(y, SparseCSRTensorStructInfo):
        raise StructInfoError(Diagnostic("both operands must be sparse matrices"))
    size = SparseCSRTensorStructInfo(x.rows, x.cols, x.dtype)
    if (
        False in (equal(x.rows, y.rows), equal(x.cols, y.cols))
        or base_check(size, SparseCSRTensorStructInfo(y.rows, y.cols, y.dtype)) is FAIL_L0
    ):
        raise StructInfoError(Diagnostic("the matrices differ in size or in dtype"))
    dtype = x.dtype if y.dtype is not None else None
    if x.pattern is not None and y.pattern is not None and equal(x.pattern, y.pattern):
        return SparseCSRTensorStructInfo(x.rows, x.cols, dtype, x.entries, x.pattern)
    return SparseCSRTensorStructInfo(x.rows, x.cols, dtype)


@opaque_op(sum_info)
def csr_add(x: Any, y: Any) -> Any:
    """Adds two sparse matrices; equal index arrays are reused."""
    (shape, pattern, starts, columns, values), (_, other, _, _, addend) = x, y
    if pattern == other:
        return shape, pattern, starts, columns, values + addend
    return from_scipy(to_scipy(x) + to_scipy(y))


def from_scipy(matrix: Any) -> tuple[Any, ...]:
    """Converts a SciPy matrix to a value; its pattern is a hash of the index arrays."""
    starts, columns = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
    pattern = hash((matrix.shape, starts.tobytes(), columns.tobytes())) & 0x7FFF_FFFF
    return matrix.shape, pattern, starts, columns, matrix.data


def to_scipy(value: tuple[Any, ...]) -> Any:
    """Converts a value to a SciPy matrix."""
    shape, _pattern, starts, columns, values = value
    return scipy.sparse.csr_matrix((values, columns, starts), shape)


PROGRAM = """
@R.function
def main(
    a: R.SparseCSRTensor("n", "m", dtype="float32", entries="e", pattern="p"),
    b: R.SparseCSRTensor("n", "m", dtype="float32", entries="e", pattern="p"),
    c: R.SparseCSRTensor("n", "m", dtype="float32"),
    more: R.Tensor((), "bool"),
):
    alike = R.csr_add(a, b)
    if more:
        total = R.csr_add(alike, c)
    else:
        total = alike
    return (alike, total)
"""


def matrices() -> list[Any]:
    """Returns three matrices; the first two have entries at the same positions."""
    first = scipy.sparse.random_array((4, 6), density=0.3, format="csr", dtype=np.float32, rng=0)
    third = scipy.sparse.random_array((4, 6), density=0.2, format="csr", dtype=np.float32, rng=1)
    return [first, first * np.float32(3), third]


def main() -> None:
    """Prints the program with its inferred StructInfo, and runs it."""
    module = structir.parse(PROGRAM)
    check_well_formed(module)
    print(module.script())
    first, second, third = matrices()
    arguments = [from_scipy(matrix) for matrix in (first, second, third)]
    alike, total = structir.interpret(module, "main", *arguments, np.asarray(True))
    print("entries:", first.nnz, "+", second.nnz, "->", to_scipy(alike).nnz)
    print("entries:", first.nnz, "+", third.nnz, "->", to_scipy(total).nnz)
    assert np.allclose(to_scipy(total).todense(), (first + second + third).todense())


if __name__ == "__main__":
    main()

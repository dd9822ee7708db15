"""The permutation of rows that the pivots of an LU factorization describe, by a kernel."""

from __future__ import annotations

import math
from functools import cache

from structir.frontend.builder import NodeBuilder
from structir.ir.dims import Dim
from structir.ir.expr import Expr, ShapeExpr
from structir.ir.kernel import Kernel
from structir.ir.struct_info import TensorStructInfo
from structir.printer.parser.parser import parse
from structir.script import R

SOURCE = """\
@I.kernel
def permutation_of_pivots(
    pivots: R.Tensor(("batch", "count"), "int64"),
    permutation: R.Tensor(("batch", "rows"), "int64"),
):
    for b in range(batch):
        for i in range(rows):
            permutation[b, i] = i
        for k in range(count):
            exchanged = permutation[b, k]
            permutation[b, k] = permutation[b, pivots[b, k]]
            permutation[b, pivots[b, k]] = exchanged
"""


@cache
def permutation_kernel() -> Kernel:
    """Returns the kernel (pivots from 0) -> row of the matrix of each row of the product."""
    kernel = parse(SOURCE, "permutation_of_pivots.py").functions["permutation_of_pivots"]
    assert isinstance(kernel, Kernel)
    return kernel


def permutation_of_pivots(builder: NodeBuilder, pivots: Expr, rows: Dim) -> Expr:
    """Returns the row of the matrix that each row of the product L @ U is, of int64.

    Pivot k, an int64 from 0 along the last axis, is the row that row k is exchanged with, in turn.
    """
    info = pivots.struct_info
    assert isinstance(info, TensorStructInfo) and isinstance(info.dims, tuple)
    *batch, count = info.dims
    total: Dim = math.prod(batch)
    flat = builder.emit(R.reshape(pivots, ShapeExpr((total, count))))
    kernel = builder.kernel(permutation_kernel())
    out_info = TensorStructInfo((total, rows), "int64")
    permutation = builder.emit(R.call_kernel(kernel, (flat,), out_sinfo=out_info))
    return builder.emit(R.reshape(permutation, ShapeExpr((*batch, rows))))

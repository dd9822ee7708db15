"""Run-time queries of sizes, used by passes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from structir.ir.dims import Dim
from structir.ir.expr import Constant, Expr, ShapeExpr
from structir.ops.broadcast import equal
from structir.ops.elementwise import astype
from structir.ops.reduce import min_
from structir.ops.shapes import shape_to_tensor
from structir.rewriting.op_traits import has_trait


def sizes_are(sizes: Sequence[Dim], numbers: Sequence[int]) -> Expr:
    """Tests at run time whether sizes equal these numbers."""
    expected = Constant(np.array(numbers, "int64"))
    same = equal(shape_to_tensor(ShapeExpr(tuple(sizes))), expected)
    return astype(min_(astype(same, "int64")), "bool")


has_trait("sizes_are", sizes_are)

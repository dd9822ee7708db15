"""Numbers beside tensors: constants, sizes and quotients of sizes as tensors without axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from structir.errors import Diagnostic, DiagnosticError
from structir.frontend.torch.sizes import Ratio
from structir.ir.dims import Dim, Poly
from structir.ir.dtype import is_float, numpy_dtype
from structir.ir.expr import Constant, Expr, PrimValue, ShapeExpr
from structir.ir.struct_info import TensorStructInfo
from structir.script import R


def number(value: Any, dtype: str) -> Constant:
    """A number as a tensor without axes."""
    return Constant(np.asarray(value).astype(numpy_dtype(dtype)))


def constant(values: Any, dtype: str = "int64") -> Constant:
    """Numbers as a constant."""
    return Constant(np.asarray(values, numpy_dtype(dtype)))


def size_number(size: Dim, dtype: str = "int64") -> Expr:
    """A size as a tensor without axes."""
    if isinstance(size, int):
        return number(size, dtype)
    made: Expr = R.full(ShapeExpr(()), PrimValue(size), dtype="int64")
    return made if dtype == "int64" else R.astype(made, dtype)


def tensor_info(value: Expr) -> TensorStructInfo:
    """What is known of a tensor."""
    info = value.struct_info
    if not isinstance(info, TensorStructInfo):
        raise DiagnosticError(Diagnostic(f"a tensor is expected here, not {info}"))
    return info


def cast(x: Expr, dtype: str) -> Expr:
    """A tensor in a dtype."""
    if tensor_info(x).dtype == dtype:
        return x
    if isinstance(x, Constant) and x.data.size == 1:
        return Constant(x.data.astype(numpy_dtype(dtype)))
    made: Expr = R.astype(x, dtype)
    return made


def as_tensor(value: Any, dtype: str) -> Expr:
    """A tensor, a number, or a size as a tensor in a dtype."""
    if isinstance(value, Expr):
        return cast(value, dtype)
    if isinstance(value, Poly):
        return size_number(value, dtype)
    if isinstance(value, Ratio):
        return _quotient(value, dtype)
    if isinstance(value, int | float):
        return number(value, dtype)
    raise DiagnosticError(Diagnostic(f"a number is expected here, not {value!r}"))


def _quotient(value: Ratio, dtype: str) -> Expr:
    if isinstance(value.over, int) and isinstance(value.under, int):
        return number(value.over / value.under, dtype)
    if value.under == 1:
        return size_number(value.over, dtype)
    wide = dtype if is_float(dtype) else "float64"
    made = R.divide(size_number(value.over, wide), size_number(value.under, wide))
    return cast(made, dtype)


def shaped(x: Expr, sizes: Any) -> Expr:
    """A tensor under another shape."""
    made: Expr = R.reshape(x, ShapeExpr(tuple(sizes)))
    return made


def product(sizes: Any) -> Dim:
    """The product of sizes."""
    made: Dim = 1
    for size in sizes:
        made = made * size
    return made


def counted(size: Dim, dtype: str = "int64") -> Expr:
    """The numbers from 0 to below a size."""
    made: Expr = R.arange(PrimValue(0), PrimValue(size), PrimValue(1), dtype="int64")
    return cast(made, dtype)

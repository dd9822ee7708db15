"""Scalars: numbers, sizes and quotients of sizes as tensors of rank 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.frontend.scalars import number, size_number
from structir.frontend.torch.sizes import Ratio
from structir.ir.dims import Dim, Poly
from structir.ir.dtype import NARROW_FLOATS, is_float, numpy_dtype
from structir.ir.expr import Constant, Expr
from structir.ir.struct_info import TensorStructInfo
from structir.script import R


def is_number(value: Any, wanted: Any) -> bool:
    """Returns whether an argument is this number; the value of an expression is unknown."""
    return not isinstance(value, Expr) and bool(value == wanted)


def tensor_info(value: Expr) -> TensorStructInfo:
    """Returns the StructInfo of a tensor; raises `DiagnosticError` for another value."""
    info = value.struct_info
    if not isinstance(info, TensorStructInfo):
        raise DiagnosticError(Diagnostic(f"expected a tensor, found {info}", code="E0805"))
    return info


def cast(x: Expr, dtype: str) -> Expr:
    """Returns a tensor cast to a dtype."""
    if tensor_info(x).dtype == dtype:
        return x
    if isinstance(x, Constant) and x.data.size == 1:
        return Constant(x.data.astype(numpy_dtype(dtype)))
    return R.astype(x, dtype)


def rounded_once(build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns the mapping of an op that torch computes in float32 for 16-bit floats."""

    def build_wide(node: Any) -> Any:
        if node.out_dtype() not in NARROW_FLOATS:
            return build(node)
        results = build(node.widen())
        if isinstance(results, Expr):
            return cast(node.emit(results), node.out_dtype())
        pairs = enumerate(results)
        return [x if x is None else cast(node.emit(x), node.out_dtype(k)) for k, x in pairs]

    return build_wide


def as_tensor(value: Any, dtype: str) -> Expr:
    """Returns a tensor, number or size as a tensor in a dtype."""
    if isinstance(value, Expr):
        return cast(value, dtype)
    if isinstance(value, Poly):
        return size_number(value, dtype)
    if isinstance(value, Ratio):
        return _quotient(value, dtype)
    if isinstance(value, int | float):
        return number(value, dtype)
    raise DiagnosticError(Diagnostic(f"expected a number, found {value!r}", code="E0805"))


def _quotient(value: Ratio, dtype: str) -> Expr:
    if isinstance(value.over, int) and isinstance(value.under, int):
        return number(value.over / value.under, dtype)
    if value.under == 1:
        return size_number(value.over, dtype)
    work_dtype = dtype if is_float(dtype) else "float64"
    result = R.divide(size_number(value.over, work_dtype), size_number(value.under, work_dtype))
    return cast(result, dtype)


def product(sizes: Any) -> Dim:
    """Returns the product of sizes."""
    result: Dim = 1
    for size in sizes:
        result = result * size
    return result

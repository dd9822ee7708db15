"""An ONNX value during the import: its expression, and its elements if known."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from onnx import TypeProto

from structir.ir.dims import Dim, Poly
from structir.ir.dtype import is_float, numpy_dtype
from structir.ir.expr import Constant, Expr, PrimValue, ShapeExpr
from structir.ir.struct_info import StructInfo
from structir.script import R

MAX_KNOWN_ELEMENTS = 4096  # elements of a constant that folding rules evaluate
Elements = np.ndarray[Any, Any]  # of dtype object: each a number or a symbolic size


@attrs.frozen(eq=False)
class OnnxValue:
    """An ONNX value: its expression; its elements if all are known as numbers or sizes; the graph
    inputs it depends on; for a list, the StructInfo common to its items; for a dequantized tensor,
    its DequantizeLinear node; for a quantized tensor, floats to which it dequantizes."""

    expr: Expr
    elements: Elements | None = None
    sources: frozenset[str] = frozenset()
    items: StructInfo | None = None
    dequantize: Any = None
    floats: OnnxValue | None = None
    onnx_type: TypeProto | None = None


def constant_elements(expr: Expr) -> Elements | None:
    """Returns the elements of a small constant, with integral floats as ints, or None."""
    if type(expr) is not Constant or expr.data.size > MAX_KNOWN_ELEMENTS:
        return None
    data = expr.data
    if data.dtype.kind in "iub":
        return data.astype(object)
    if data.dtype.kind == "f" and np.isfinite(data).all():
        return as_elements([_whole(v) for v in data.ravel().tolist()], data.shape)
    return None


def _whole(value: float) -> int | float:
    return int(value) if value == int(value) else value


def as_elements(items: Any, shape: tuple[int, ...]) -> Elements:
    """Returns numbers and sizes as an object array of a shape."""
    result = np.empty(len(items), object)
    for index, item in enumerate(items):
        result[index] = item
    return result.reshape(shape)


def is_foldable(elements: Elements) -> bool:
    """Returns whether every element is an integer or a size, and can be materialized."""
    return all(isinstance(e, int | Poly | np.bool_) for e in elements.ravel())


def is_constant(elements: Elements) -> bool:
    """Returns whether no element is symbolic."""
    return not any(isinstance(e, Poly) for e in elements.ravel())


def as_expression(elements: Elements, dtype: str) -> Expr:
    """Returns known elements as an expression: a constant, or a tensor built from sizes."""
    if is_constant(elements):
        return Constant(elements.astype(numpy_dtype(dtype)))
    if elements.ndim == 0:
        element: Dim = elements.item()
        tensor = R.full(ShapeExpr(()), PrimValue(element), dtype="int64")
    else:
        tensor = R.shape_to_tensor(ShapeExpr(tuple(elements.ravel().tolist())))
        if elements.ndim != 1:
            tensor = R.reshape(tensor, ShapeExpr(tuple(elements.shape)))
    return tensor if dtype == "int64" else R.astype(tensor, dtype)


def is_foldable_dtype(dtype: str) -> bool:
    """Returns whether folding rules apply to elements of a dtype."""
    return dtype in ("int64", "int32", "bool") or is_float(dtype)

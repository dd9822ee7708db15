"""What the importer knows of an ONNX value: its expression, and its elements where they are
known."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from structir.ir.dims import Dim, Poly
from structir.ir.dtype import is_float, numpy_dtype
from structir.ir.expr import Constant, Expr, PrimValue, ShapeExpr
from structir.ir.struct_info import StructInfo
from structir.script import R

MOST_KNOWN = 4096  # elements of a constant that are looked at one by one
Elements = np.ndarray[Any, Any]  # of dtype object: each a number or a symbolic size


@attrs.frozen(eq=False)
class OnnxValue:
    """An ONNX value: an expression; its elements, if each is known as a number or a size; the
    graph inputs that it is made from; for a list, what holds of each of its items."""

    expr: Expr
    elements: Elements | None = None
    sources: frozenset[str] = frozenset()
    items: StructInfo | None = None


def constant_elements(expr: Expr) -> Elements | None:
    """The elements of a small constant, whole floats as integers; None for anything else."""
    if type(expr) is not Constant or expr.data.size > MOST_KNOWN:
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
    """Numbers and sizes as an array of objects."""
    made = np.empty(len(items), object)
    for place, item in enumerate(items):
        made[place] = item
    return made.reshape(shape)


def is_carried(elements: Elements) -> bool:
    """Whether every element is a whole number or a size, so that a program can state it."""
    return all(isinstance(e, int | Poly | np.bool_) for e in elements.ravel())


def is_constant(elements: Elements) -> bool:
    """Whether no element is symbolic."""
    return not any(isinstance(e, Poly) for e in elements.ravel())


def stated(elements: Elements, dtype: str) -> Expr:
    """Known elements as an expression: a constant, or sizes put into a tensor."""
    if is_constant(elements):
        return Constant(elements.astype(numpy_dtype(dtype)))
    if elements.ndim == 0:
        element: Dim = elements.item()
        whole = R.full(ShapeExpr(()), PrimValue(element), dtype="int64")
    else:
        whole = R.shape_to_tensor(ShapeExpr(tuple(elements.ravel().tolist())))
        if elements.ndim != 1:
            whole = R.reshape(whole, ShapeExpr(tuple(elements.shape)))
    made: Expr = whole if dtype == "int64" else R.astype(whole, dtype)
    return made


def carried_dtype(dtype: str) -> bool:
    """Whether elements of a dtype are carried as numbers and sizes."""
    return dtype in ("int64", "int32", "bool") or is_float(dtype)

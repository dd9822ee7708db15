"""Ops between tensors and shapes."""

from __future__ import annotations

from math import prod
from typing import Any

from structir.errors import Diagnostic, DiagnosticError, ShapeMismatchError
from structir.ir.expr import Call, Expr
from structir.ir.struct_info import (
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    known_dims,
)
from structir.lazy import lazy_module
from structir.opdef.adjoint_op import Cotangent, Emit
from structir.opdef.attributes import Sizes
from structir.opdef.call_view import CallView, ResolvedSignature, UnknownShape
from structir.opdef.define import op
from structir.opdef.examples import ExactValues, f32
from structir.opdef.index_vars import access_text, index_vars
from structir.ops.create import arange, zeros
from structir.ops.layout import flatten
from structir.ops.reshape import reshape
from structir.ops.scatter import scatter_elements
from structir.projections import scalar_expr
from structir.projections.scalar_expr import LoopIndex, ScalarExpr, select

np = lazy_module("numpy")
Array = Any


def size_signature(call: CallView) -> str:
    """Returns a signature without reads: the shape determines the number of elements."""
    rank = call.rank("x")
    entries = ["*s"] if rank is None else [f"[{i}]" for i in index_vars(rank)]
    return f"{access_text('x', entries)} -> out[] @ int64"


@op(size_signature)
def size(x: Array) -> Array:
    """Computes the number of elements."""
    return x


@size.reference
def _(x: Array) -> Array:
    return np.array(x.size, "int64")


@size.kernel("cpu")
def _(x: Array, out: Array) -> None:
    out[0] = np.asarray(x).size


@op("x[*s] -> out[*s]")
def shape_of(x: Array) -> Any:
    """Returns the shape of a tensor as a shape value."""
    return x


@shape_of.struct_info
def _(call: CallView) -> StructInfo:
    info = call.info("x")
    return ShapeStructInfo(known_dims(info), info.ndim)


@shape_of.reference
def _(x: Array) -> tuple[int, ...]:
    return tuple([int(size) for size in x.shape])


MAX_INT64 = 2**63 - 1


def shape_to_tensor_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature of a vector as long as the shape."""
    shape = call["shape"]
    known = () if isinstance(shape, UnknownShape) else shape
    for axis, size in enumerate(known):
        if isinstance(size, int) and size > MAX_INT64:
            message = f"shape: expected sizes of at most {MAX_INT64}, found {size} on axis {axis}"
            call.reject(message, "the result has dtype int64", "E0109")
    rank = shape.ndim if isinstance(shape, UnknownShape) else len(shape)
    return ResolvedSignature("-> out[i] @ int64", "" if rank is None else f"i == {rank}")


@op(shape_to_tensor_signature)
def shape_to_tensor(shape: Sizes, *, i: LoopIndex) -> ScalarExpr:
    """Converts a shape value to an int64 vector."""
    element = scalar_expr.as_scalar_expr(0)
    for axis, size in enumerate(shape):
        element = select(scalar_expr.eq(i, axis), size, element)
    return element


@shape_to_tensor.reference
def _(shape: tuple[int, ...]) -> Array:
    return np.array(shape, "int64")


@op("x[n] @ int64 -> out[n] @ int64")
def tensor_to_shape(x: Array) -> Any:
    """Converts an int64 vector of known length to a shape value."""
    return x


@tensor_to_shape.struct_info
def _(call: CallView) -> StructInfo:
    info: TensorStructInfo = call.info("x")
    if info.ndim not in (None, 1):
        call.reject(f"x: expected a vector of sizes, found {info.ndim} axes", None, "E0304")
    if info.dtype not in (None, "int64"):
        call.reject(f"x: expected sizes of dtype int64, found {info.dtype}", None, "E0303")
    sizes = known_dims(info)
    count = sizes[0] if sizes else None
    return ShapeStructInfo(None, count if isinstance(count, int) else None)


@tensor_to_shape.reference
def _(x: Array) -> tuple[int, ...]:
    return tuple([int(size) for size in x])


def dynamic_strided_slice_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature with bounds known only at run time."""
    rank = call.rank("x")
    bounds = ", ".join([f"{name}[q] @ int64" for name in ("begin", "end", "strides")])
    if rank is None:
        return ResolvedSignature(f"x[*s], {bounds} -> y[*u]")
    return ResolvedSignature(f"x[*s], {bounds} -> {access_text('y', ['_'] * rank)}", f"q == {rank}")


@op(dynamic_strided_slice_signature)
def dynamic_strided_slice(x: Array, begin: Array, end: Array, strides: Array) -> Array:
    """Slices every axis with bounds and steps given by tensors."""
    return x


@dynamic_strided_slice.reference
def _(x: Array, begin: Array, end: Array, strides: Array) -> Array:
    if np.any(strides == 0):
        raise ShapeMismatchError(
            "dynamic_strided_slice: strides: expected nonzero numbers, found 0"
        )
    bounds = zip(begin, end, strides, x.shape, strict=True)
    return x[tuple([_slice(int(b), int(e), int(s), n) for b, e, s, n in bounds])]


@dynamic_strided_slice.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Computes the adjoint: scatters the cotangent at the linear indices of the slice."""
    x, *bounds = call.args
    sizes = x.struct_info.dims
    if not isinstance(sizes, tuple):
        text = "not differentiable: the shape of x is unknown"
        name = "dynamic_strided_slice"
        raise DiagnosticError(Diagnostic(text, call.span, name, code="E0307"))
    count = prod(sizes)
    numbers = dynamic_strided_slice(reshape(arange(count), sizes), *bounds)
    empty = zeros((count,), x.struct_info.dtype)
    return [reshape(scatter_elements(empty, flatten(numbers), flatten(cotangent)), sizes)]


def _slice(begin: int, end: int, step: int, length: int) -> slice:
    """Returns the NumPy slice; a descending end before the first element is None."""
    begin, end = (b + length if b < 0 else b for b in (begin, end))
    return slice(max(begin, 0), None if step < 0 and end < 0 else max(end, 0), step)


shape_to_tensor.example((2, 3))
dynamic_strided_slice.example(
    f32[7, 4],
    ExactValues("int64", (0, 1)),
    ExactValues("int64", (7, -1)),
    ExactValues("int64", (2, 1)),
)
size.example(f32[2, 3])

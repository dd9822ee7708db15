"""Values of the program while it is exported: tensors, shapes, and lists for tuples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from structir.export.stablehlo.block import INDEX, HloBlock, HloSizeSource, Info
from structir.export.stablehlo.elements import LoopGrid
from structir.export.stablehlo.tensors import HloTensor
from structir.ir.dims import Dim
from structir.ir.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

HloValue = Any  # an HloTensor, an HloShape, or a list of values for a tuple


@attrs.frozen
class HloShape:
    """A shape: its sizes are values only where one is used."""

    dims: tuple[Dim, ...]


def flat(value: HloValue) -> list[Any]:
    """Returns the tensors and shapes of a value, nested tuples flattened."""
    if isinstance(value, list):
        return [each for field in value for each in flat(field)]
    return [value]


def rebuilt(like: HloValue, values: Iterator[Any]) -> HloValue:
    """Returns values in the nesting of a value."""
    if isinstance(like, list):
        return [rebuilt(field, values) for field in like]
    return next(values)


def type_info(info: StructInfo | None) -> Info | None:
    """Returns dims and dtype of a tensor; a shape is a vector and a number a scalar.

    Returns None if the rank or the dtype is unknown.
    """
    if isinstance(info, ShapeStructInfo):
        return None if info.ndim is None or info.ndim < 0 else ((info.ndim,), INDEX)
    if isinstance(info, PrimStructInfo) and info.dtype:
        return ((), info.dtype)
    if isinstance(info, TensorStructInfo) and isinstance(info.dims, tuple) and info.dtype:
        return (info.dims, info.dtype)
    return None


def as_tensor(block: HloBlock, value: HloTensor | HloShape) -> HloTensor:
    """Returns a value as a tensor; a shape is a vector of its sizes."""
    if isinstance(value, HloTensor):
        return value
    if not value.dims:
        return block.emit("constant", [], (0,), INDEX, {"value": "dense<> : tensor<0xi64>"})
    return LoopGrid(block).sizes(value.dims)


def with_info(block: HloBlock, value: HloValue, info: StructInfo | None) -> HloValue:
    """Returns a value with the dims that its StructInfo states."""
    if isinstance(value, list):
        fields: Sequence[Any] = info.fields if isinstance(info, TupleStructInfo) else ()
        if len(fields) != len(value):
            return value
        return [with_info(block, v, field) for v, field in zip(value, fields, strict=True)]
    known = type_info(info)
    if known is None or not isinstance(value, HloTensor) or isinstance(info, ShapeStructInfo):
        return value
    dims = tuple(known[0])
    if len(dims) != value.rank or dims == value.dims:
        return value
    typed = attrs.evolve(value, dims=dims)
    if typed.type == value.type:
        return typed
    return (
        LoopGrid(block).reshape(value, dims) if _static(value.dims) else _cast(block, value, dims)
    )


def _static(dims: Sequence[Dim]) -> bool:
    return all(isinstance(d, int) for d in dims)


def _cast(block: HloBlock, value: HloTensor, dims: Sequence[Dim]) -> HloTensor:
    return block.reshape(value, dims, LoopGrid(block).sizes(dims))


def bind_sizes(block: HloBlock, value: HloValue, info: StructInfo | None) -> None:
    """Records which symbolic sizes a value has."""
    if isinstance(value, list) and isinstance(info, TupleStructInfo):
        for each, field in zip(value, info.fields, strict=False):
            bind_sizes(block, each, field)
    elif not isinstance(value, HloTensor):
        return
    elif isinstance(info, TensorStructInfo) and isinstance(info.dims, tuple):
        for axis, size in enumerate(info.dims):
            block.bind(size, HloSizeSource(value, axis))
    elif isinstance(info, ShapeStructInfo) and info.dims is not None:
        for axis, size in enumerate(info.dims):
            block.bind(size, HloSizeSource(value, axis, of_shape=False))
    elif isinstance(info, PrimStructInfo) and info.value is not None:
        block.bind(info.value, HloSizeSource(value, None))

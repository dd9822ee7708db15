"""Mappings of ops on shapes, and of checks."""

from __future__ import annotations

from math import prod

from structir.export.stablehlo.call import HloCall
from structir.export.stablehlo.registry import exports
from structir.export.stablehlo.tensors import HloTensor
from structir.export.stablehlo.values import HloShape


@exports("shape_of")
def shape_of(call: HloCall) -> HloShape:
    """Returns the shape; its sizes are written where they are used."""
    return HloShape(call["x"].dims)


@exports("size")
def size(call: HloCall) -> HloTensor:
    """Writes the product of the sizes."""
    count = call.grid.size(prod(call["x"].dims))
    return call.block.convert(count, call.result.dtype)


@exports("nn.class_indices")
def class_indices(call: HloCall) -> HloTensor:
    """Writes class 0 for ignored targets; the check of the others is omitted."""
    targets = call.block.convert(call["targets"], "int64")
    ignored, zero = [
        call.grid.filled(value, "int64", targets.dims) for value in (call.attr("ignore_index"), 0)
    ]
    return call.block.select(call.block.compare("EQ", targets, ignored), zero, targets)

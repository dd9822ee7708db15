"""Mappings of ops that join or reshape whole tensors."""

from __future__ import annotations

from structir.export.stablehlo.call import HloCall
from structir.export.stablehlo.registry import exports
from structir.export.stablehlo.tensors import HloTensor, integer


@exports("concat")
def concat(call: HloCall) -> HloTensor:
    """Writes a `concatenate`."""
    info = call.result
    parts = [call.block.convert(x, info.dtype) for x in call["tensors"]]
    axis = call.axis("axis", "tensors")
    attributes = {"dimension": integer(axis)}
    return call.block.emit("concatenate", parts, info.dims, info.dtype, attributes)


@exports("reshape")
def reshape(call: HloCall) -> HloTensor:
    """Writes a reshape."""
    return call.grid.reshape(call["x"], call.result.dims)

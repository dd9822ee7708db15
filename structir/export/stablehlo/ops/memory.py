"""Mappings of ops on the bytes of tensors."""

from __future__ import annotations

from math import prod

from structir.export.stablehlo.call import HloCall
from structir.export.stablehlo.registry import exports
from structir.export.stablehlo.tensors import HloTensor
from structir.ir import dims
from structir.ir.dtype import numpy_dtype


@exports("memory.view")
def view(call: HloCall) -> HloTensor | None:
    """Writes a `bitcast_convert` between dtypes of one width, and a reshape."""
    x, info = call["x"], call.result
    widths = [numpy_dtype(dtype).itemsize for dtype in (x.dtype, info.dtype)]
    same_count = dims.equal(prod(x.dims), prod(info.dims)) is True
    whole = call.attr("relative_byte_offset") in (None, 0) and same_count
    if x.dtype == info.dtype or "bool" in (x.dtype, info.dtype):
        return None
    if widths[0] != widths[1] or not whole:
        return None
    result = call.block.emit("bitcast_convert", [x], x.dims, info.dtype)
    return call.grid.reshape(result, info.dims)

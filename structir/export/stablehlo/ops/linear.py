"""Mappings of factors of matrices."""

from __future__ import annotations

from structir.export.stablehlo.block import INDEX
from structir.export.stablehlo.call import HloCall
from structir.export.stablehlo.registry import exports
from structir.export.stablehlo.tensors import HloTensor, integer


@exports("linalg.cholesky")
def cholesky(call: HloCall) -> HloTensor | None:
    """Writes a `cholesky` with zeros above the diagonal; float32 and float64 only."""
    a = call["a"]
    static = all([isinstance(d, int) for d in a.dims])
    if not static or a.dtype not in ("float32", "float64"):
        return None
    factors = call.block.emit("cholesky", [a], a.dims, a.dtype, {"lower": "true"})
    rows, columns = [
        call.block.emit("iota", [], a.dims, INDEX, {"iota_dimension": integer(axis)})
        for axis in (a.rank - 2, a.rank - 1)
    ]
    zeros = call.grid.filled(0, a.dtype, a.dims)
    return call.block.select(call.block.compare("GE", rows, columns), factors, zeros)

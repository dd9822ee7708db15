"""Mappings of sorts and searches."""

from __future__ import annotations

from structir.export.stablehlo.block import INDEX, HloBlock
from structir.export.stablehlo.call import HloCall
from structir.export.stablehlo.registry import exports
from structir.export.stablehlo.specs import reduction
from structir.export.stablehlo.tensors import HloTensor, integer
from structir.ir.dtype import is_float


@exports("sort")
def sort(call: HloCall) -> HloTensor:
    """Writes a stable `sort`; NaNs are last in ascending order."""
    x, axis = call["x"], call.axis("axis", "x")
    return _sorted(call.block, [x], axis, call.attr("descending"))[0]


@exports("argsort")
def argsort(call: HloCall) -> HloTensor:
    """Writes a `sort` of elements with their positions."""
    x, axis = call["x"], call.axis("axis", "x")
    results = _sorted(call.block, [x, _positions(call, x, axis)], axis, call.attr("descending"))
    return call.block.convert(results[1], call.result.dtype)


@exports("topk")
def topk(call: HloCall) -> HloTensor | list[HloTensor] | None:
    """Writes slices of a `sort`."""
    x, axis = call["x"], call.axis("axis", "x")
    dims = call.infos[0].dims
    if not all([isinstance(d, int) for d in (*dims, *x.dims)]):
        return None
    results = _sorted(call.block, [x, _positions(call, x, axis)], axis, call.attr("largest"))
    starts, steps = [0] * x.rank, [1] * x.rank
    first = [call.block.slice(each, starts, dims, steps) for each in results]
    first[1] = call.block.convert(first[1], call.infos[-1].dtype)
    kind = call.attr("ret_type")
    return first if kind == "both" else first[kind == "indices"]


@exports("bucketize")
def bucketize(call: HloCall) -> HloTensor:
    """Writes the number of boundaries below each element."""
    x, boundaries, grid = call["x"], call["boundaries"], call.grid
    shape = (*x.dims, boundaries.dims[0])
    left = grid.broadcast(boundaries, [x.rank], shape)
    right = grid.broadcast(call.block.convert(x, boundaries.dtype), range(x.rank), shape)
    below = call.block.compare("LE" if call.attr("right") else "LT", left, right)
    ones = call.block.convert(below, call.result.dtype)
    region = call.block.combining("add", ones.dtype)
    zero = call.block.number(0, ones.dtype)
    return reduction(call.block, ones, zero, [x.rank], region)


def _positions(call: HloCall, x: HloTensor, axis: int) -> HloTensor:
    """Returns the position of each element along an axis."""
    attributes = {"iota_dimension": integer(axis)}
    if all([isinstance(d, int) for d in x.dims]):
        return call.block.emit("iota", [], x.dims, INDEX, attributes)
    return call.block.emit("dynamic_iota", [call.grid.sizes(x.dims)], x.dims, INDEX, attributes)


def _sorted(
    block: HloBlock, operands: list[HloTensor], axis: int, descending: bool
) -> list[HloTensor]:
    """Returns operands in the order of the first."""
    dtype = operands[0].dtype

    def before(inner: HloBlock, args: list[HloTensor]) -> list[HloTensor]:
        a, b = args[:2]
        result = inner.compare("GT" if descending else "LT", a, b)
        if is_float(dtype):
            absent = [inner.compare("NE", value, value) for value in (a, b)]
            last, other = absent if descending else absent[::-1]
            alone = inner.same("and", last, inner.same("not", other))
            result = inner.same("or", result, alone)
        return [result]

    if operands[0].rank == 0:
        return operands
    region = block.region([((), o.dtype) for o in operands for _ in range(2)], before)
    attributes = {"dimension": integer(axis), "is_stable": "true"}
    infos = [(o.dims, o.dtype) for o in operands]
    return block.emit_many("sort", operands, infos, attributes, [region])

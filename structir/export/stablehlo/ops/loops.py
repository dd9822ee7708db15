"""Mappings of loops: `R.scan`, and `loop.iterate` of imported models and traced functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from structir.export.stablehlo.block import INDEX, HloBlock
from structir.export.stablehlo.elements import LoopGrid
from structir.export.stablehlo.registry import exports_function
from structir.export.stablehlo.tensors import HloTensor, integers
from structir.export.stablehlo.values import HloValue, flat, type_info, with_info
from structir.ir.dims import Dim
from structir.ir.expr import Tuple
from structir.ir.struct_info import TensorStructInfo

Step = Callable[[HloBlock, list[HloTensor]], Sequence[HloTensor]]


@exports_function("scan")
def scan(exporter: Any, call: Any) -> list[HloTensor]:
    """Writes a `while` over the slices; a step updates one slice of each output."""
    cell, states, x, *captured = call.args
    closure, block = exporter.callee(cell), exporter.block
    starts = flat(exporter.value(states))
    scanned = flat(exporter.value(x))
    fields = [value for each in captured for value in exporter.value(each)]
    infos = [*states.struct_info.fields, *[_slice_info(v) for v in scanned]]
    infos += [info for each in captured for info in each.struct_info.fields]
    outputs = _buffers(exporter, call.struct_info.fields[len(starts) :])
    zero = block.number(0, INDEX)
    count, size = len(starts), LoopGrid(block).size(scanned[0].dims[0])

    def goes_on(inner: HloBlock, args: list[HloTensor]) -> list[HloTensor]:
        return [inner.compare("LT", args[0], size)]

    def step(inner: HloBlock, args: list[HloTensor]) -> list[HloTensor]:
        index, carried, stacked = args[0], args[1 : 1 + count], args[1 + count :]
        elements = [_element(inner, value, index) for value in scanned]
        with exporter.inside(inner):
            results = flat(exporter.inlined(closure, [*carried, *elements, *fields], infos))
        next_states = _typed(inner, results[:count], carried)
        rest = results[count:]
        updated = [_with_element(inner, a, b, index) for a, b in zip(stacked, rest, strict=True)]
        following = inner.same("add", index, inner.number(1, INDEX))
        return [following, *next_states, *updated]

    return _while(block, [zero, *starts, *outputs], goes_on, step)[1:]


@exports_function("loop.iterate")
def iterate(exporter: Any, call: Any) -> list[HloValue]:
    """Writes a `while` with a step number and a condition."""
    body, trips, condition, carried, _, _ = call.args
    closure, block = exporter.callee(body), exporter.block
    starts = flat(exporter.value(carried))
    count = len(starts)
    infos = [p.struct_info for p in closure.function.params[:2]]
    infos += [TensorStructInfo(v.dims, v.dtype) for v in starts]
    outputs = _buffers(exporter, call.struct_info.fields[count:])
    limit = None if _is_absent(trips) else block.convert(exporter.tensor(trips), INDEX)
    going = block.number(True, "bool") if _is_absent(condition) else exporter.tensor(condition)

    def goes_on(inner: HloBlock, args: list[HloTensor]) -> list[HloTensor]:
        if limit is None:
            return [args[1]]
        return [inner.same("and", args[1], inner.compare("LT", args[0], limit))]

    def step(inner: HloBlock, args: list[HloTensor]) -> list[HloTensor]:
        index, values, stacked = args[0], args[2 : 2 + count], args[2 + count :]
        with exporter.inside(inner):
            results = flat(exporter.inlined(closure, args[: 2 + count], infos))
        updates = zip(stacked, results[1 + count :], strict=True)
        following = inner.same("add", index, inner.number(1, INDEX))
        next_values = _typed(inner, results[1 : 1 + count], values)
        return [
            following,
            results[0],
            *next_values,
            *[_with_element(inner, a, b, index) for a, b in updates],
        ]

    starting = [block.number(0, INDEX), going, *starts, *outputs]
    return list(_while(block, starting, goes_on, step)[2:])


def _while(
    block: HloBlock, starts: Sequence[HloTensor], goes_on: Step, step: Step
) -> list[HloTensor]:
    infos = [(start.dims, start.dtype) for start in starts]
    regions = [block.region(infos, goes_on), block.region(infos, step)]
    return block.emit_many("while", starts, infos, {}, regions)


def _is_absent(operand: Any) -> bool:
    return isinstance(operand, Tuple) and not operand.fields


def _slice_info(value: HloTensor) -> TensorStructInfo:
    return TensorStructInfo(value.dims[1:], value.dtype)


def _typed(
    block: HloBlock, values: Sequence[HloTensor], like: Sequence[HloTensor]
) -> list[HloTensor]:
    """Returns the next carried values with the dims of those before."""
    pairs = zip(values, like, strict=True)
    return [with_info(block, v, TensorStructInfo(w.dims, w.dtype)) for v, w in pairs]


def _buffers(exporter: Any, infos: Sequence[Any]) -> list[HloTensor]:
    """Returns zeros with the shapes of stacked outputs."""
    buffers = []
    for info in infos:
        known = type_info(info)
        if known is None:
            exporter.fail(
                f"no StableHLO form of a loop with an output {info} of unknown size",
                "use R.scan, or carry the result instead of an output of each step",
            )
        else:
            buffers.append(LoopGrid(exporter.block).filled(0, known[1], known[0]))
    return buffers


def _starts(block: HloBlock, index: HloTensor, rank: int) -> list[HloTensor]:
    return [index, *[block.number(0, INDEX)] * (rank - 1)]


def _element(block: HloBlock, x: HloTensor, index: HloTensor) -> HloTensor:
    """Returns the slice of axis 0 at an index."""
    grid, shape = LoopGrid(block), (1, *x.dims[1:])
    starts = _starts(block, index, x.rank)
    if all([isinstance(d, int) for d in shape]):
        sizes: Sequence[Dim] = shape
        attributes = {"slice_sizes": integers(sizes)}  # type: ignore[arg-type]
        part = block.emit("dynamic_slice", [x, *starts], shape, x.dtype, attributes)
    else:
        first = block.vector(starts)
        bounds = [first, block.same("add", first, grid.sizes(shape)), grid.sizes([1] * x.rank)]
        part = block.emit("real_dynamic_slice", [x, *bounds], shape, x.dtype)
    return grid.reshape(part, x.dims[1:])


def _with_element(block: HloBlock, x: HloTensor, element: HloTensor, index: HloTensor) -> HloTensor:
    """Returns a tensor with the slice of axis 0 at an index replaced."""
    update = LoopGrid(block).reshape(element, (1, *x.dims[1:]))
    return block.same("dynamic_update_slice", x, update, *_starts(block, index, x.rank))

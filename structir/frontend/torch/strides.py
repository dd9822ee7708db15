"""The strides of a traced graph's outputs, which callers of torch rely on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import mul
from typing import Any

from structir.frontend.torch.call_sizes import CallSizes
from structir.frontend.torch.graph import FxGraph, Meta, names_of
from structir.ir import dims
from structir.ir.dims import Dim
from structir.lazy import lazy_module

torch = lazy_module("torch")


def stride_setter(
    graph: FxGraph, sizes: CallSizes
) -> Callable[[Sequence[Any], Sequence[Any]], list[Any]]:
    """Returns a function of the inputs and the results of a graph that gives each result the
    strides and the storage offset that torch recorded.

    AOTAutograd recreates views of inputs from these. Results that are dense already are unchanged.
    """
    metas = [graph.tensors.get(name) for name in names_of(graph.outputs)]
    layouts = [None if m is None else _layout(m, sizes) for m in metas]
    flat = [dim for layout in layouts if layout is not None for dim in layout]
    if not flat:
        return lambda arguments, results: list(results)
    evaluate = sizes.evaluator(flat)

    def restrided(arguments: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        numbers = iter(evaluate(arguments))
        values: list[Any] = []
        for result, layout in zip(results, layouts, strict=True):
            if layout is None:
                values.append(result)
            else:
                *strides, offset = [next(numbers) for _ in layout]
                values.append(_with_layout(result, strides, offset))
        return values

    return restrided


def _layout(meta: Meta, call_sizes: CallSizes) -> list[Dim] | None:
    """Returns the strides and the offset of a tensor; None if it is dense and has no offset, or if
    they depend on data."""
    sizes, strides = (
        [call_sizes.dim(n) for n in numbers] for numbers in (meta.sizes, meta.strides)
    )
    offset = call_sizes.dim(meta.offset)
    dense = [*accumulate(reversed(sizes), mul, initial=1)][:-1][::-1]
    if offset == 0 and all(
        [s == 1 or dims.equal(a, b) for a, b, s in zip(strides, dense, sizes, strict=True)]
    ):
        return None
    layout = [*strides, offset]
    return layout if call_sizes.are_known(layout) else None


def _with_layout(value: Any, strides: Sequence[int], offset: int) -> Any:
    """Returns a tensor with the elements of another, and these strides and this storage offset."""
    if list(value.stride()) == list(strides) and value.storage_offset() == offset:
        return value
    if not value.numel():
        return value.new_empty(offset).as_strided(value.shape, strides, offset)
    extent = offset + 1 + sum([(n - 1) * s for n, s in zip(value.shape, strides, strict=True)])
    memory = value.new_empty(extent)
    shape = [1 if s == 0 else n for n, s in zip(value.shape, strides, strict=True)]
    source = value[tuple([slice(n) for n in shape])]
    if _overlaps(shape, strides):
        indices = torch.arange(extent).as_strided(shape, strides, offset)
        memory[indices.reshape(-1)] = source.reshape(-1)
    else:
        memory.as_strided(shape, strides, offset).copy_(source)
    return memory.as_strided(value.shape, strides, offset)


def _overlaps(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two indices may be at one address."""
    end = 0
    for stride, size in sorted([(s, n) for s, n in zip(strides, shape, strict=True) if n > 1]):
        if stride <= end:
            return True
        end += stride * (size - 1)
    return False

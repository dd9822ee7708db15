"""The strides of a traced graph's outputs, which callers of torch rely on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import accumulate
from operator import mul
from typing import Any

from structir.backend.sizes import Evaluator, symbols_of
from structir.frontend.torch.graph import FxGraph, Meta, names_of
from structir.frontend.torch.sizes import TorchSymbols
from structir.ir import dims
from structir.ir.dims import Dim
from structir.lazy import lazy_module

torch = lazy_module("torch")


def stride_setter(graph: FxGraph) -> Callable[[Sequence[Any], Sequence[Any]], list[Any]]:
    """Returns a function of the inputs and the results of a graph that gives each result the
    strides and the storage offset that torch recorded.

    AOTAutograd recreates views of inputs from these. Results that are dense already are unchanged.
    """
    symbols = TorchSymbols({})
    places = _places(graph, symbols)
    metas = [graph.tensors.get(name) for name in names_of(graph.outputs)]
    layouts = [None if m is None else _layout(m, symbols, places) for m in metas]
    flat = [dim for layout in layouts if layout is not None for dim in layout]
    if not flat:
        return lambda arguments, results: list(results)
    needed = symbols_of(flat)
    evaluate = Evaluator(flat, needed)

    def restrided(arguments: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        sizes = [_size(arguments[k], axis) for k, axis in [places[s] for s in needed]]
        numbers = iter(evaluate(sizes).tolist())
        layouts_now = [layout and [next(numbers) for _ in layout] for layout in layouts]
        pairs = zip(results, layouts_now, strict=True)
        return [_with_layout(r, n[:-1], n[-1]) if n else r for r, n in pairs]

    return restrided


def _layout(meta: Meta, symbols: TorchSymbols, known: Collection[Any]) -> list[Dim] | None:
    """Returns the strides and the offset of a tensor; None if it is dense and has no offset, or if
    they depend on data."""
    sizes = [symbols.dim(size) for size in meta.sizes]
    strides = [symbols.dim(stride) for stride in meta.strides]
    offset = symbols.dim(meta.offset)
    dense = [*accumulate(reversed(sizes), mul, initial=1)][:-1][::-1]
    if offset == 0 and all(
        [s == 1 or dims.equal(a, b) for a, b, s in zip(strides, dense, sizes, strict=True)]
    ):
        return None
    layout = [*strides, offset]
    return layout if {*symbols_of(layout)} <= {*known} else None


def _places(graph: FxGraph, symbols: TorchSymbols) -> dict[Any, tuple[int, int | None]]:
    """Returns for each symbol an input that is it, or the input and the axis that has its size."""
    places: dict[Any, tuple[int, int | None]] = {}
    for index, name in enumerate(names_of(graph.inputs)):
        meta = graph.tensors.get(name)
        sizes = dict(enumerate(meta.sizes)) if meta is not None else {None: graph.scalars.get(name)}
        for axis, size in sizes.items():
            symbol = None if size is None else dims.as_sym(symbols.dim(size))
            if symbol is not None:
                places.setdefault(symbol, (index, axis))
    return places


def _size(argument: Any, axis: int | None) -> int:
    return int(argument) if axis is None else int(argument.shape[axis])


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

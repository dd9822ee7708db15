"""Symbolic sizes of a traced graph, evaluated for the arguments of a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from structir.frontend.torch.graph import FxGraph, names_of
from structir.frontend.torch.sizes import TorchSymbols
from structir.ir import dims
from structir.ir.dims import Dim
from structir.runtime.plans.sizes import Evaluator, symbols_of


class CallSizes:
    """The symbols of a graph, and the inputs that determine them."""

    def __init__(self, graph: FxGraph) -> None:
        self.symbols = TorchSymbols({})
        self._places: dict[Any, tuple[int, int | None]] = {}  # an input, and an axis of a tensor
        for index, name in enumerate(names_of(graph.inputs)):
            meta = graph.tensors.get(name)
            sizes: dict[int | None, Any] = {None: graph.scalars.get(name)}
            if meta is not None:
                sizes = {**dict(enumerate(meta.sizes))}
            for axis, size in sizes.items():
                symbol = None if size is None else dims.as_sym(self.dim(size))
                if symbol is not None:
                    self._places.setdefault(symbol, (index, axis))

    def dim(self, size: Any) -> Dim:
        """Returns a size of the graph."""
        return self.symbols.dim(size)

    def are_known(self, sizes: Sequence[Dim]) -> bool:
        """Whether the inputs determine these sizes."""
        return {*symbols_of(sizes)} <= self._places.keys()

    def evaluator(self, sizes: Sequence[Dim]) -> Callable[[Sequence[Any]], list[int]]:
        """Returns the function from the arguments of a call to the values of these sizes."""
        needed = symbols_of(sizes)
        places = [self._places[symbol] for symbol in needed]
        evaluate = Evaluator(sizes, needed)

        def values(arguments: Sequence[Any]) -> list[int]:
            sizes_of_call = [_size(arguments[k], axis) for k, axis in places]
            return [int(number) for number in evaluate(sizes_of_call)]

        return values


def _size(argument: Any, axis: int | None) -> int:
    return int(argument) if axis is None else int(argument.shape[axis])

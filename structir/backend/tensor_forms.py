"""The declared forms of tensors, compared with the arrays of a call at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from structir.backend.sizes import evaluator, symbols_of
from structir.errors import DiagnosticError
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.dtype import numpy_dtype
from structir.ir.struct_info import StructInfo, TensorStructInfo

Shape = tuple[int, ...]


class ShapeForms:
    """Shapes over symbols, with more dims that depend on the same symbols."""

    def __init__(self, shapes: Iterable[Sequence[Dim]], further: Sequence[Dim] = ()) -> None:
        flat = [*chain.from_iterable(shapes)]
        self.indices = symbol_indices(flat)
        self.count = len(flat)
        self.free = [s for s in symbols_of([*flat, *further]) if s not in self.indices]
        self._evaluate = evaluator([*flat, *further], [*self.indices, *self.free])

    def sizes(self, shapes: Iterable[Shape], known: Mapping[Sym, int]) -> dict[Sym, int]:
        """Returns the size of each symbol: a known one, or that of its first axis."""
        flat = [*chain.from_iterable(shapes)]
        return {s: known[s] if s in known else flat[k] for s, k in self.indices.items()} | {
            s: known[s] for s in self.free
        }

    def further(self, shapes: Iterable[Shape], sizes: Mapping[Sym, int]) -> Shape | None:
        """Returns the values of the further dims; None if a shape differs from its form."""
        try:
            values = self._evaluate(*sizes.values())
        except DiagnosticError:
            return None
        if values[: self.count] != tuple(chain.from_iterable(shapes)):
            return None
        return values[self.count :]


class CallForms:
    """The dtypes and ranks of the arguments of a function, and the shapes of its results."""

    def __init__(
        self, params: Sequence[TensorStructInfo], results: Sequence[TensorStructInfo]
    ) -> None:
        self._types = [np.ndarray] * len(params)
        self._dtypes = [numpy_dtype(str(p.dtype)) for p in params]
        self._ranks = [len(_dims(p)) for p in params]
        declared = [*chain.from_iterable([_dims(r) for r in results])]
        indices = symbol_indices([*chain.from_iterable([_dims(p) for p in params])])
        symbols = symbols_of(declared)
        self._indices = [indices[s] for s in symbols if s in indices]
        self.is_closed = len(self._indices) == len(symbols)
        self._evaluate = evaluator(declared, symbols)

    def shapes(self, arguments: Sequence[Any]) -> tuple[Shape, ...] | None:
        """Returns the shapes of arrays of the declared dtypes and ranks; None for other values."""
        if [type(a) for a in arguments] != self._types:
            return None
        if [a.dtype for a in arguments] != self._dtypes:
            return None
        shapes = tuple([a.shape for a in arguments])
        return shapes if [len(shape) for shape in shapes] == self._ranks else None

    def result_sizes(self, shapes: Iterable[Shape]) -> Shape:
        """Returns the declared sizes of all axes of the results, for the shapes of arguments."""
        flat = [*chain.from_iterable(shapes)]
        return self._evaluate(*[flat[index] for index in self._indices])


def call_forms(
    params: Sequence[StructInfo], results: Sequence[StructInfo], inputs: Sequence[Sequence[Dim]]
) -> CallForms | None:
    """Returns the forms of a call whose parameters have the shapes of the inputs of its region.

    Returns None if a value is not a tensor of known rank and dtype, or if the parameters do not
    determine all sizes.
    """
    infos: Any = [*params, *results]
    if not all(map(_is_plain, infos)) or [_dims(p) for p in infos[: len(params)]] != [*inputs]:
        return None
    forms = CallForms(infos[: len(params)], infos[len(params) :])
    return forms if forms.is_closed else None


def _is_plain(info: StructInfo) -> bool:
    if not isinstance(info, TensorStructInfo) or info.dtype is None or info.axes is not None:
        return False
    return type(info.dims) is tuple


def _dims(info: TensorStructInfo) -> tuple[Dim, ...]:
    declared: Any = info.dims
    return tuple(declared)


def symbol_indices(values: Sequence[Dim]) -> dict[Sym, int]:
    """Returns the first index of each symbol that is one of the values."""
    indices: dict[Sym, int] = {}
    for index, value in enumerate(values):
        symbol = dims.as_sym(value)
        if symbol is not None:
            indices.setdefault(symbol, index)
    return indices

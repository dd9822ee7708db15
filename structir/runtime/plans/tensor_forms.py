"""The declared forms of tensors, compared with the arrays of a call at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from structir.errors import DiagnosticError
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.dtype import numpy_dtype
from structir.ir.struct_info import StructInfo, TensorStructInfo
from structir.runtime.plans.sizes import Evaluator, symbols_of

Shape = tuple[int, ...]


class ShapeForms:
    """Shapes over symbols, with more dims that depend on the same symbols."""

    def __init__(self, shapes: Iterable[Sequence[Dim]], further: Sequence[Dim] = ()) -> None:
        flat = [*chain.from_iterable(shapes)]
        self.indices = symbol_indices(flat)
        self.free = [s for s in symbols_of([*flat, *further]) if s not in self.indices]
        number_of = {s: k for k, s in enumerate([*self.indices, *self.free])}
        symbols = [dims.as_sym(dim) for dim in flat]
        self._constant_axes = [k for k, dim in enumerate(flat) if isinstance(dim, int)]
        self._constants = [flat[k] for k in self._constant_axes]
        self._symbol_axes = [k for k, symbol in enumerate(symbols) if symbol is not None]
        self._numbers = [number_of[s] for s in symbols if s is not None]
        others = {*range(len(flat))} - {*self._constant_axes, *self._symbol_axes}
        self._other_axes = sorted(others)
        computed = [*[flat[k] for k in self._other_axes], *further]
        self._evaluate = Evaluator(computed, [*number_of]) if computed else None

    def sizes(self, shapes: Iterable[Shape], known: Mapping[Sym, int]) -> dict[Sym, int]:
        """Returns the size of each symbol: a known one, or that of its first axis."""
        flat = [*chain.from_iterable(shapes)]
        sizes = {s: known[s] if s in known else flat[k] for s, k in self.indices.items()}
        for symbol in self.free:
            sizes[symbol] = known[symbol]
        return sizes

    def further(self, shapes: Iterable[Shape], sizes: Mapping[Sym, int]) -> list[int] | None:
        """Returns the values of the further dims; None if a shape differs from its form."""
        flat, numbers = [*chain.from_iterable(shapes)], [*sizes.values()]
        if [flat[k] for k in self._constant_axes] != self._constants:
            return None
        if [flat[k] for k in self._symbol_axes] != [numbers[k] for k in self._numbers]:
            return None
        if self._evaluate is None:
            return []
        try:
            values: list[int] = self._evaluate(numbers).tolist()
        except DiagnosticError:
            return None
        count = len(self._other_axes)
        return values[count:] if values[:count] == [flat[k] for k in self._other_axes] else None


class CallForms:
    """The dtypes and ranks of the arguments of a function, and the shapes of its results."""

    def __init__(
        self, params: Sequence[TensorStructInfo], results: Sequence[TensorStructInfo]
    ) -> None:
        self._types = [np.ndarray] * len(params)
        self._dtypes = [numpy_dtype(str(p.dtype)) for p in params]
        self._ranks = [len(_dims(p)) for p in params]
        self._declared = [*chain.from_iterable([_dims(r) for r in results])]
        indices = symbol_indices([*chain.from_iterable([_dims(p) for p in params])])
        symbols = symbols_of(self._declared)
        self._indices = [indices[s] for s in symbols if s in indices]
        self.is_closed = len(self._indices) == len(symbols)
        self._evaluate = Evaluator(self._declared, symbols)

    def shapes(self, arguments: Sequence[Any]) -> tuple[Shape, ...] | None:
        """Returns the shapes of arrays of the declared dtypes and ranks; None for other values."""
        if [type(a) for a in arguments] != self._types:
            return None
        if [a.dtype for a in arguments] != self._dtypes:
            return None
        shapes = tuple([a.shape for a in arguments])
        return shapes if [len(shape) for shape in shapes] == self._ranks else None

    def are_results(self, computed: Sequence[Dim], values: Iterable[Shape], shapes: Any) -> bool:
        """Whether results have the declared sizes: dims, and their values for arguments."""
        if computed == self._declared:
            return True
        flat = [*chain.from_iterable(shapes)]
        declared = self._evaluate([flat[index] for index in self._indices]).tolist()
        return bool(declared == [*chain.from_iterable(values)])


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

"""Sizes that match_casts bind to elements of arguments, evaluated before a function is planned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from structir.analysis.variables import symbols_in
from structir.distributed.known_values import KnownValues, known_values
from structir.distributed.ragged_boundary import row_arrays
from structir.ir.dims import Sym
from structir.ir.expr import Function, MatchCast
from structir.ir.struct_info import TupleStructInfo
from structir.lazy import lazy_module

np = lazy_module("numpy")
Value = Any


def sizes_of_elements(
    function: Function, sizes: Mapping[str, Any], args: Sequence[Value]
) -> dict[str, int]:
    """Returns the sizes by name; none where they depend on branches, closures or other calls.

    Sizes of the rows of ragged parameters are evaluated without the other arguments. Raises
    ShapeMismatchError where a run of the function does."""
    casts = [b.struct_info for b in function.body.bindings() if isinstance(b, MatchCast)]
    known: dict[Sym, int] = {s: sizes[s.name] for s in symbols_in(function) if s.name in sizes}
    missing = {s for info in casts for s in symbols_in(info)} - known.keys()
    if not missing:
        return {}
    values = known_values(function, row_arrays(function, sizes), known)[1]
    if not missing <= values.keys():
        values = KnownValues(function, dict(_arrays(function, args)), known).sizes
    return {s.name: values[s] for s in missing if s in values}


def _arrays(function: Function, args: Sequence[Value]) -> Iterator[tuple[Any, Value]]:
    """Yields the NumPy arrays among the arguments, with their keys in a program."""
    for param, value in zip(function.params, args, strict=True):
        for path, part in _parts(param.struct_info, value, ()):
            if isinstance(part, np.ndarray):
                yield (param, path), part


def _parts(info: Any, value: Value, path: tuple[int, ...]) -> Iterator[tuple[Any, Value]]:
    if not isinstance(info, TupleStructInfo):
        yield path, value
        return
    for k, (field, part) in enumerate(zip(info.fields, value, strict=True)):
        yield from _parts(field, part, (*path, k))

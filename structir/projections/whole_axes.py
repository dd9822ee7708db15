"""Executes index specs whose body operates on whole axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

from structir.errors import Diagnostic, StructInfoError
from structir.ir.dims import Sym
from structir.ir.dtype import DTYPES, numpy_dtype
from structir.lazy import lazy_module
from structir.projections.access import LoopSpace, load
from structir.projections.spec import AccessIndex, IndexSpec, Read, Statement
from structir.projections.values import computing_dtype

np = lazy_module("numpy")

Array = Any
NUMBERS = (Real, Decimal)  # of Python, which NumPy converts
Body = Callable[[Mapping[str, Array]], Any]


def run_whole_axes(spec: IndexSpec, operands: Sequence[Array], body: Body) -> list[Array]:
    """Returns the results of a spec at concrete sizes.

    The body receives each operand with its whole axes last, after the parallel index variables of
    the statement. Those have size 1 where the operand does not vary, and are omitted for an operand
    without any.
    """
    (statement,) = spec.statements
    extents = {index_var: int(n) for index_var, n in spec.extents.items() if isinstance(n, int)}
    arrays = {
        r.name: _load_operand(r, statement, operands[r.operand], extents) for r in statement.reads
    }
    returned = body(arrays)
    is_list = isinstance(returned, list) and len(statement.writes) > 1
    values = returned if is_list or isinstance(returned, tuple) else (returned,)
    if len(values) != len(statement.writes):
        raise unexpected_value(f"{len(statement.writes)} results", f"{len(values)}")
    results: list[Array] = []
    for write, info, value in zip(statement.writes, spec.results, values, strict=True):
        dtype = numpy_dtype(info.dtype or "float32")
        value_in_order = _order_axes(array_of(value), write.entries, statement, extents)
        results.append(
            np.ascontiguousarray(value_in_order.astype(dtype, copy=False)).reshape(info.dims)
        )
    return results


def _index_vars_in(entries: tuple[AccessIndex, ...], index_vars: tuple[Sym, ...]) -> list[Sym]:
    accessed = {s for e in entries for s in e.index_vars}
    return [s for s in index_vars if s in accessed]


def _load_operand(
    read: Read, statement: Statement, array: Array, extents: Mapping[Sym, int]
) -> Array:
    whole_vars = tuple(_index_vars_in(read.entries, statement.whole))
    parallel_vars = statement.parallel if _index_vars_in(read.entries, statement.parallel) else ()
    space = LoopSpace((*parallel_vars, *whole_vars), extents, {})
    values = load(array, read, space, {}).values
    wide = computing_dtype(array.dtype.name)
    return values if wide == array.dtype.name else values.astype(wide)


def _order_axes(
    value: Array, entries: tuple[AccessIndex, ...], statement: Statement, extents: Mapping[Sym, int]
) -> Array:
    """Returns a result with its axes in the order of the index expressions of its write."""
    whole_vars = _index_vars_in(entries, statement.whole)
    order = [*_index_vars_in(entries, statement.parallel), *whole_vars]
    shape = [extents[s] for s in order]
    try:
        value = np.broadcast_to(value, shape)
    except ValueError:
        raise unexpected_value(f"an array of shape {tuple(shape)}", f"{value.shape}") from None
    axes = [order.index(s) for e in entries for s in order if s in e.index_vars]
    return np.transpose(value, axes)


def array_of(value: Any) -> Array:
    """Returns a value of a body or a reference as an array; raises StructInfoError for one that is
    no number, such as None, which NumPy converts to NaN."""
    try:
        array = np.asarray(value)
    except Exception as error:  # of another library's arrays, and of lists of different lengths
        raise unexpected_value("an array", f"{type(value).__name__}: {error}") from error
    is_object = array.dtype.kind == "O" and all(isinstance(v, NUMBERS) for v in array.flat)
    is_number = array.dtype.kind in "biuf" or array.dtype.name in DTYPES
    if not is_object and not is_number:
        kind = repr(value) if array.dtype.kind in "OUS" else f"an array of {array.dtype}"
        raise unexpected_value("an array of integers or floats", kind)
    return array


def unexpected_value(expected: str, returned: str) -> StructInfoError:
    """Returns the error of what a body or a reference returns."""
    message = f"expected {expected}, found {returned}"
    hint = "return what the index signature declares, one array for each result"
    return StructInfoError(Diagnostic(message, hint=hint, code="E1135"))

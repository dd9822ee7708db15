"""Sizes that match_casts bind to elements of arguments, evaluated before a function is planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from structir.analysis.variables import symbols_in
from structir.distributed.host_values import HostFunction
from structir.distributed.known_values import known_values
from structir.distributed.ragged_boundary import row_arrays
from structir.ir.dims import Sym
from structir.ir.expr import Function, MatchCast, ShapeExpr
from structir.ir.module import IRModule

Value = Any


def sizes_of_elements(
    module: IRModule, function: Function, sizes: Mapping[str, Any], args: Sequence[Value]
) -> dict[str, int]:
    """Returns the sizes by name; none of casts in branches.

    Sizes of the rows of ragged parameters are evaluated without the other arguments. Raises
    ShapeMismatchError where a run of the function does."""
    bindings = list(function.body.bindings())
    casts = tuple([b.struct_info for b in bindings if isinstance(b, MatchCast)])
    known: dict[Sym, int] = {s: sizes[s.name] for s in symbols_in(function) if s.name in sizes}
    missing = [s for s in symbols_in(casts) if s not in known]
    if not missing:
        return {}
    values = known_values(function, row_arrays(function, sizes), known)[1]
    unknown = [s for s in missing if s not in values]
    if unknown:
        run = HostFunction.of(module, function.params, bindings, (ShapeExpr(tuple(unknown)),))  # type: ignore[arg-type]
        (numbers,) = run(args, sizes)
        values |= dict(zip(unknown, numbers, strict=True))
    return {s.name: values[s] for s in missing}

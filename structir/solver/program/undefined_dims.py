"""Replaces dims and sizes of rows that an inferred signature no longer binds by their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from structir.analysis.substitution import Substitution
from structir.errors import DiagnosticError
from structir.ir.axes import Axes, RowVar, size_in
from structir.ir.binding_dims import bound_dims, row_size_values, sizes_of_rows, standing_alone
from structir.ir.dims import Dim, as_dim, substitute
from structir.ir.expr import Binding, Function, MatchCast, SeqExpr
from structir.ir.node import replace
from structir.ir.polynomial import Sym
from structir.ir.requirements import cast_of, conditions_of
from structir.solver.domains.terms import Row


def drop_undefined_dims(
    rewritten: Function,
    function: Function,
    resolve: Callable[[Row], Row],
    express: Callable[[Any], Any],
) -> Function:
    """Replaces dims that the refined signature no longer binds by their values.

    `resolve` returns the axes of a row in the solver, and `express` an axis in the variables of the
    program, or None. If dead code has no valid sizes for the values, the result mentions unbound
    dims, and the caller must keep the signature.
    """
    defined = bound_dims([param.struct_info for param in rewritten.params])
    variables = standing_alone([param.struct_info for param in function.params])
    dims, rows = dict[Any, Dim](), dict[RowVar, Axes]()
    for variable in variables:
        if type(variable) is RowVar:
            shape = resolve((variable,))
            axes = tuple(map(express, shape))
            if shape != (variable,) and None not in axes:
                rows[variable] = axes
        elif type(variable) is Sym:
            (size,) = map(size_in, resolve((as_dim(variable),)))
            value = express(size)
            if isinstance(value, Dim) and value != as_dim(variable):
                dims[variable] = value
    values: dict[Any, Any] = {**rows, **dims}  # closures and casts may mention them
    values |= row_size_values(sizes_of_rows(rows), rows)
    undefined = {symbol: size for symbol, size in values.items() if symbol not in defined}
    if not undefined:
        return rewritten
    body = _without_proved_requirements(rewritten.body, undefined)
    try:
        return Substitution(dims=undefined).function(replace(rewritten, body=body))
    except DiagnosticError:  # code that never runs has a negative size for these values
        return rewritten


def _without_proved_requirements(body: SeqExpr, values: Mapping[Sym, Dim]) -> SeqExpr:
    """Removes the conditions of `R.require` that hold for these values."""
    blocks = [
        replace(
            block, bindings=tuple([b for old in block.bindings for b in _open_part(old, values)])
        )
        for block in body.blocks
    ]
    return replace(body, blocks=tuple([block for block in blocks if block.bindings]))


def _open_part(binding: Binding, values: Mapping[Sym, Dim]) -> tuple[Binding, ...]:
    """Returns a binding without the conditions that hold; nothing if no other is left."""
    conditions = conditions_of(binding)
    unproved = tuple([c for c in conditions if substitute(c, values) != 1])
    if len(unproved) == len(conditions):
        return (binding,)
    shape, ones = cast_of(unproved, binding.span)
    var = type(binding.var)(binding.var.name, ones, binding.var.span)
    return (MatchCast(var, shape, ones, binding.span),) if unproved else ()

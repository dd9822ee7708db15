"""The tangent of `loop.iterate`: loops with a trip count or a condition."""

from __future__ import annotations

from typing import Any

from structir.adjoints.tangents import Tangent, TangentScope, is_floating
from structir.analysis.substitution import Substitution
from structir.ir.expr import Call, Expr, StringImm, Tuple, Var
from structir.ir.struct_info import TupleStructInfo


def iterate(scope: TangentScope, call: Any, body: Any) -> tuple[Expr, Tangent]:
    """Returns a loop over carried values and their tangents; `body` is the original function."""
    body_var, trips, condition, carried, empty, dtypes = call.args
    starts = scope.fields(carried)
    count = len(starts)
    floats = [k for k in range(count) if is_floating(starts[k].struct_info)]
    parts = scope.parts(scope.tangent(carried), count)
    tangents = [scope.filled(starts[k], parts[k]) for k in floats]
    declared = [Var(p.name, p.struct_info) for p in body.params]
    directions = [
        Var(f"{declared[2 + k].name}_tangent", declared[2 + k].struct_info) for k in floats
    ]
    names = dtypes.value.split()
    floating = [k for k, name in enumerate(names) if "float" in name]

    def build() -> Expr:
        inner = TangentScope(
            scope.builder, scope.functions, Substitution(scope.copier.variables, fresh=True)
        )
        inner.tangents, inner.closures = dict(scope.tangents), dict(scope.closures)
        for param, var in zip(body.params, declared, strict=True):
            inner.copier.variables[param] = var
        for k, direction in zip(floats, directions, strict=True):
            inner.tangents[declared[2 + k]] = direction
        result, tangent = inner.run(body.body)
        values = inner.fields(result)
        changes = inner.parts(tangent, len(values))
        filled = {
            k: inner.filled(values[k], changes[k])
            for k in (*[1 + n for n in floats], *[1 + count + n for n in floating])
        }
        return Tuple(
            (
                *values[: 1 + count],
                *[filled[1 + k] for k in floats],
                *values[1 + count :],
                *[filled[1 + count + k] for k in floating],
            )
        )

    function = scope.builder.local_function(
        [*declared, *directions], build, f"{body_var.name}_tangent"
    )
    infos = call.sinfo_args[0].fields
    stacks = list(infos[count:])
    result_info = TupleStructInfo(
        (
            *infos[:count],
            *[infos[k] for k in floats],
            *stacks,
            *[stacks[k] for k in floating],
        )
    )
    operands = (
        function,
        trips,
        condition,
        Tuple((*starts, *tangents)),
        Tuple((*empty.fields, *[empty.fields[k] for k in floating])),
        StringImm(" ".join([*names, *[names[k] for k in floating]])),
    )
    loop = Call(call.op, operands, call.attrs, (result_info,), None, call.span)
    results = scope.fields(scope.emit(loop))
    first = count + len(floats)
    values = [*results[:count], *results[first : first + len(stacks)]]
    found: list[Tangent] = [None] * len(values)
    for k, tangent in zip(floats, results[count:first], strict=True):
        found[k] = tangent
    for k, tangent in zip(floating, results[first + len(stacks) :], strict=True):
        found[count + k] = tangent
    return scope.emit(Tuple(tuple(values))), tuple(found)

"""Loops of imported programs: a body over carried values, with stacked outputs of the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from structir.frontend.builder import NodeBuilder
from structir.ir.dims import Dim
from structir.ir.expr import Expr, ShapeExpr, StringImm, Tuple, Var
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.script import R

INDEX = TensorStructInfo((), "int64")
FLAG = TensorStructInfo((), "bool")
ABSENT = Tuple(())
Body = Callable[[Expr, list[Expr]], tuple[Expr, list[Expr], list[Expr]]]


def iterated(
    builder: NodeBuilder,
    stem: str,
    trips: Expr,
    condition: Expr,
    carried: Sequence[Expr],
    step_outputs: Sequence[tuple[tuple[Dim, ...], str]],
    body: Body,
) -> list[Expr]:
    """Returns the final carried values, then the outputs of all steps stacked along a new axis.

    The loop runs `trips` times, or while the condition is true. `body` builds one step from its
    number and the carried values: the next condition, the next carried values and the outputs,
    whose sizes and dtypes are `step_outputs`.
    """
    infos = [v.struct_info for v in carried]
    params = [Var("step", INDEX), Var("condition", FLAG)]
    params += [Var(f"{stem}_{k}", _without_symbols(info)) for k, info in enumerate(infos)]

    def build() -> Expr:
        inner: list[Expr] = [
            builder.match_cast(p, i, p.name) if _without_symbols(i) != i else p
            for p, i in zip(params[2:], infos, strict=True)
        ]
        next_condition, next_values, outputs = body(params[0], inner)
        return Tuple((next_condition, *next_values, *outputs))

    function = builder.local_function(params, build, f"{stem}_body")
    initial = Tuple(tuple([ShapeExpr((0, *sizes)) for sizes, _ in step_outputs]))
    dtypes = StringImm(" ".join([dtype for _, dtype in step_outputs]))
    stacked = [TensorStructInfo(None, dtype, len(sizes) + 1) for sizes, dtype in step_outputs]
    result_info = TupleStructInfo((*[_without_symbols(i) for i in infos], *stacked))
    operands = (function, trips, condition, Tuple(tuple(carried)), initial, dtypes)
    call = R.call_pure_packed("loop.iterate", *operands, sinfo_args=result_info)
    result = builder.emit(call, stem)
    return [result[k] for k in range(len(result_info.fields))]


def _without_symbols(info: Any) -> StructInfo:
    """Returns a StructInfo without symbolic sizes, for the signature of a loop body."""
    if all(isinstance(d, int) for d in info.dims):
        plain: StructInfo = info
        return plain
    return TensorStructInfo(None, info.dtype, info.ndim)

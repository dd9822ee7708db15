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


def scanned(
    builder: NodeBuilder,
    stem: str,
    states: Sequence[Expr],
    tensors: Sequence[Expr],
    captured: Sequence[Any],
    body: Callable[[list[Expr]], list[Expr]],
) -> list[Expr]:
    """Returns the final states, then the outputs of all steps stacked along a new axis.

    A step runs for each slice of the first axes of the tensors. `body` builds one from the states,
    the slices and the captured values: the next states, then the outputs. Captured variables are
    operands of the loop, which makes it differentiable; other captured values, such as sizes, are
    passed to `body` as they are.
    """
    variables = [v for v in captured if isinstance(v, Var)]
    infos = (
        [v.struct_info for v in states],
        [_slice_info(x) for x in tensors],
        [v.struct_info for v in variables],
    )
    params = [
        [Var(f"{stem}_{kind}{k}", info) for k, info in enumerate(group)]
        for kind, group in zip(("", "x", "w"), infos, strict=True)
    ]
    by_variable = dict(zip(variables, params[2], strict=True))

    def build() -> Expr:
        inner = [by_variable[v] if isinstance(v, Var) else v for v in captured]
        return Tuple(tuple(body([*params[0], *params[1], *inner])))

    function = builder.local_function([p for group in params for p in group], build, f"{stem}_step")
    operands = [Tuple(tuple(group)) for group in (states, tensors, variables)]
    result = builder.emit(R.scan(function, *operands), stem)
    info: Any = result.struct_info
    return [result[k] for k in range(len(info.fields))]


def _without_symbols(info: Any) -> StructInfo:
    """Returns a StructInfo without symbolic sizes, for the signature of a loop body."""
    if all(isinstance(d, int) for d in info.dims):
        return info
    return TensorStructInfo(None, info.dtype, info.ndim)


def _slice_info(tensor: Expr) -> StructInfo:
    """Returns the StructInfo of a slice of the first axis."""
    info: Any = tensor.struct_info
    return TensorStructInfo(info.dims[1:], info.dtype)

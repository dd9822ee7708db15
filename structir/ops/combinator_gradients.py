"""Gradients of maps that remain as calls, because the rank of an operand is unknown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from structir.errors import Diagnostic, StructInfoError
from structir.ir.dtype import is_float
from structir.ir.expr import Call, Expr
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.ops.combinators import MAP, VMAP, attribute
from structir.ops.reduce import sum_

Path = tuple[int, ...]


def _map_gradient(call: Call, cotangent: Any, loop: Any) -> list[Any]:
    """Returns the cotangents of a map: the pullback of its function, mapped over the operands and
    the cotangent. An operand that each slice receives whole gets their sum.

    `loop` is defined in `adjoints.reverse`.
    """
    operands = call.args[1:]
    in_axes, stacked = _axes(call)
    leaves = list(_leaves(cotangent, ()))
    params = [k for k, operand in enumerate(operands) if _is_differentiable(operand.struct_info)]
    if not leaves or not params:
        return [None] * len(call.args)
    cotangents: list[Any] = [None] * len(operands)
    for axis in dict.fromkeys([in_axes[k] or 0 for k in params]):  # results have one axis
        group = [k for k in params if (in_axes[k] or 0) == axis]
        pullback, targets = loop.apply_pullback(group, [path for path, _ in leaves])
        arguments = (pullback, *operands, *[value for _, value in leaves])
        mapped = loop.emit(_mapped(arguments, (*in_axes, *[stacked] * len(leaves)), axis, call))
        for number, (k, path) in enumerate(targets):
            value = loop.emit(mapped[number])
            if in_axes[k] is None:
                value = loop.emit(sum_(value, 0))
            cotangents[k] = _with_leaf(cotangents[k], path, value, operands[k].struct_info)
    return [None, *cotangents]


def _axes(call: Call) -> tuple[list[int | None], int]:
    """Returns the mapped axis of each operand, and that of the results."""
    count = len(call.args) - 1
    if call.op is VMAP:
        axes = attribute(call, "in_axes")
        each = axes if isinstance(axes, tuple) else (axes,) * count
        return list(each), attribute(call, "out_axes")
    axes = attribute(call, "axes")
    if isinstance(axes, tuple) and len(axes) != 1:
        message = "axes: expected one axis, where the rank of an operand is unknown"
        hint = "write one `R.map` in another, or annotate the rank"
        raise StructInfoError(Diagnostic(message, call.span, hint=hint))
    return [axes[0] if isinstance(axes, tuple) else axes] * count, 0


def _mapped(arguments: Sequence[Expr], axes: Sequence[Any], out: int, call: Call) -> Call:
    attributes = {"in_axes": tuple(axes), "out_axes": out}
    mapped: Call = VMAP.definition.bind(tuple(arguments), attributes, call.span)
    return mapped


def _is_differentiable(info: StructInfo | None) -> bool:
    if isinstance(info, TupleStructInfo):
        return any(map(_is_differentiable, info.fields))
    return isinstance(info, TensorStructInfo) and is_float(info.dtype or "float32")


def _leaves(cotangent: Any, path: Path) -> Iterator[tuple[Path, Expr]]:
    """Yields the tensors of a cotangent with their paths."""
    if isinstance(cotangent, tuple):
        for k, field in enumerate(cotangent):
            yield from _leaves(field, (*path, k))
    elif cotangent is not None:
        yield path, cotangent


def _with_leaf(cotangent: Any, path: Path, value: Expr, info: Any) -> Any:
    """Returns a cotangent with the value of one tensor."""
    if not path:
        return value
    fields = list(cotangent or [None] * len(info.fields))
    fields[path[0]] = _with_leaf(fields[path[0]], path[1:], value, info.fields[path[0]])
    return tuple(fields)


for combinator in (MAP, VMAP):
    combinator.definition.hooks["loop_gradient"] = _map_gradient

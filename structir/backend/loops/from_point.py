"""From the scalar expression of an index signature to a typed expression."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np

from structir.backend.loops.expression import (
    Expression,
    Number,
    apply,
    axis_dim,
    number,
    position,
)
from structir.backend.loops.scalar_functions import is_written
from structir.errors import StructIRError
from structir.ir.dims import Dim, Sym, substitute
from structir.ir.dtype import EXTENDED, is_float
from structir.ir.kernel import computed_in
from structir.ir.kernel_functions import NARROW, ROUND
from structir.projections.conversion import convert_dtype
from structir.projections.scalar_expr import (
    FUNCTIONS,
    LoopIndex,
    OperandElement,
    ScalarExpr,
    ScalarExtent,
    ScalarLiteral,
    ScalarOp,
)
from structir.projections.values import LITERAL_KINDS, RULES, SETTLED, WEAK_INT, promote_dtypes

OF_FLOATS = {"quotient": "div"}  # functions with another name for floats


class NoKernelError(StructIRError):
    """A computation that kernels cannot express; the op's reference runs instead."""


@attrs.frozen
class TypedExpression:
    """An expression and its kind: a dtype, or a weak one that adapts to the other operand."""

    value: Expression
    kind: str


def cast(value: Expression, dtype: str) -> Expression:
    """Returns the value in the computation dtype of elements of this one."""
    target = computed_in(dtype)
    if value.dtype == target:
        return value
    if isinstance(value, Number):
        return number(_number_as(value.value, target), target)
    if dtype == "float16" and value.dtype == "float64":  # it is rounded on the way to memory
        value = apply("to_odd", (value,), "float64")
    return apply("cast", (value,), target)


def _number_as(value: float | int | bool, dtype: str) -> float | int | bool:
    if dtype == "bool":
        return bool(value)
    if is_float(dtype):
        return float(value)
    found: int = convert_dtype(np.asarray(value), dtype).item()
    return found


def expression_of(
    point: ScalarExpr,
    reads: Mapping[str, Expression],
    dtypes: Mapping[str, str],
    letters: Mapping[Sym, Dim],
) -> Expression:
    """Returns the expression of a scalar expression, given its reads and its index variables."""
    made: dict[ScalarExpr, TypedExpression] = {}

    def visit(node: ScalarExpr) -> TypedExpression:
        found = made.get(node)
        if found is None:
            found = made[node] = convert(node)
        return found

    def convert(node: ScalarExpr) -> TypedExpression:
        match node:
            case OperandElement(name):
                return TypedExpression(reads[name], dtypes[name])
            case ScalarLiteral(value):
                kind = LITERAL_KINDS[type(value)]
                dtype = SETTLED.get(kind, kind)
                return TypedExpression(number(value, dtype), kind)
            case LoopIndex(letter):
                return TypedExpression(
                    position(letters.get(letter, axis_dim(letter)), "int64"), WEAK_INT
                )
            case ScalarExtent(dim):
                return TypedExpression(position(substitute(dim, dict(letters)), "int64"), WEAK_INT)
            case ScalarOp(fn, args, dtype) if FUNCTIONS[fn].is_inlined:
                return visit(FUNCTIONS[fn].inlined(*args))
            case ScalarOp(fn, args, dtype):
                return _applied(fn, [visit(a) for a in args], dtype)
        raise NoKernelError(f"no kernel form for {node!r}")

    return visit(point).value


def _applied(fn: str, args: list[TypedExpression], dtype: str | None) -> TypedExpression:
    rule = FUNCTIONS[fn].rule
    kind = RULES[rule]([a.kind for a in args], dtype)
    if fn == "cast":
        return TypedExpression(_explicit_cast(args[0].value, kind), kind)
    settled = SETTLED.get(kind, kind)
    if rule == "logic":
        operands = [_truth(a.value) for a in args]
    elif rule == "select":
        operands = [_truth(args[0].value), *[cast(a.value, settled) for a in args[1:]]]
    else:
        own = promote_dtypes([a.kind for a in args]) if rule in ("compare", "test") else kind
        operands = [cast(a.value, SETTLED.get(own, own)) for a in args]
    result = computed_in(settled)
    if is_float(operands[-1].dtype):
        fn = OF_FLOATS.get(fn, fn)
    _require(fn, operands[-1].dtype)
    _require_dtype(settled)
    return TypedExpression(apply(fn, tuple(operands), result), kind)


def _explicit_cast(value: Expression, dtype: str) -> Expression:
    _require_dtype(dtype)
    cast_value = cast(value, dtype)
    if dtype in NARROW:
        return apply(f"{ROUND}{dtype}", (cast_value,), cast_value.dtype)
    return cast_value


def _truth(value: Expression) -> Expression:
    return cast(value, "bool")


def _require(fn: str, dtype: str) -> None:
    if not is_written(fn, dtype):
        raise NoKernelError(f"{fn} on {dtype} has no kernel form")


def _require_dtype(dtype: str) -> None:
    if dtype in EXTENDED and dtype not in NARROW:
        raise NoKernelError(f"no kernels compute with {dtype}")

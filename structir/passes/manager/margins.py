"""Margins of decisions of elementwise ops: numbers whose signs are the outcomes.

A decision is a function of the scalar body of an op that is discontinuous, or has a kink, where its
margin is 0: a comparison of two values, a rounding, a condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from structir.errors import StructIRError
from structir.ir.dtype import is_float, is_int
from structir.ir.expr import Call, Constant, Var
from structir.ir.kernel import Apply
from structir.ir.node import replace
from structir.ir.struct_info import TensorStructInfo
from structir.opdef.memo import spec_of
from structir.passes.manager.edge_plan import has_unknown_rank
from structir.projections.scalar_expr import ScalarExpr, ScalarOp, distinct_nodes
from structir.projections.spec import IndexSpec
from structir.projections.values import EvaluationPoint, evaluate

Array = Any

HALF = 0.5


@attrs.frozen
class Margin:
    """A margin of a decision: an expression, and a function of the values of its arguments.

    `outcomes` are the signs of the margin that make a difference.
    """

    expr: ScalarOp | Apply
    of: Callable[..., Array]
    outcomes: tuple[int, ...] = (-1, 0, 1)


def _difference(a: Array, b: Array) -> Array:
    return np.asarray(a, np.float64) - np.asarray(b, np.float64)


def _to_half(a: Array) -> Array:
    wide = np.asarray(a, np.float64)
    return wide - np.floor(wide) - HALF


def _to_integer(a: Array) -> Array:
    wide = np.asarray(a, np.float64)
    return wide - np.rint(wide)


def _itself(a: Array, *_: Array) -> Array:
    return np.asarray(a, np.float64)


def _truth(a: Array, *_: Array) -> Array:
    return np.asarray(a, np.float64) - HALF


def _both(a: Array, b: Array) -> Array:
    return np.asarray(np.logical_and(a, b), np.float64) - HALF


def _only_first(a: Array, b: Array) -> Array:
    return np.asarray(np.logical_and(a, np.logical_not(b)), np.float64) - HALF


def _only_second(a: Array, b: Array) -> Array:
    return _only_first(b, a)


def _neither(a: Array, b: Array) -> Array:
    return HALF - np.asarray(np.logical_or(a, b), np.float64)


def _remainder(a: Array, b: Array) -> Array:
    """Returns the distances to the nearest multiples, with their signs."""
    divisor = np.abs(np.asarray(b, np.float64))
    divisor = np.where(divisor == 0, 1.0, divisor)
    rest = np.mod(np.asarray(a, np.float64), divisor)
    return np.where(rest > divisor / 2, rest - divisor, rest)


ALL, TRUTH = (-1, 0, 1), (-1, 1)
COMPARISON = ((_difference, ALL),)
COMBINATION = ((_both, TRUTH), (_only_first, TRUTH), (_only_second, TRUTH), (_neither, TRUTH))
ROUNDING = ((_to_integer, ALL), (_itself, ALL))
MARGINS: Mapping[str, tuple[tuple[Callable[..., Array], tuple[int, ...]], ...]] = {
    **dict.fromkeys(("lt", "le", "gt", "ge", "eq", "ne", "min", "max"), COMPARISON),
    **dict.fromkeys(("and", "or", "xor"), COMBINATION),
    **dict.fromkeys(("floor", "ceil", "trunc"), ROUNDING),
    **dict.fromkeys(("abs", "sign"), ((_itself, ALL),)),
    **dict.fromkeys(("mod", "floordiv"), ((_remainder, ALL), (_itself, ALL))),
    "round": ((_to_half, ALL),),
    "select": ((_truth, TRUTH),),
}


def margins_of(call: Call) -> tuple[Margin, ...]:
    """Returns the margins of an elementwise op; none for other calls."""
    spec = _elementwise_spec(call)
    if spec is None:
        return ()
    value: ScalarExpr = spec.statements[0].writes[0].value  # type: ignore[assignment]
    dtypes = {operand.dtype for operand in spec.operands}
    margins = []
    for expr in dict.fromkeys(distinct_nodes(value)):
        if isinstance(expr, ScalarOp):
            margins += [Margin(expr, of, outcomes) for of, outcomes in MARGINS.get(expr.fn, ())]
            if expr.fn == "cast" and _truncates(dtypes, expr.dtype):
                margins += [Margin(expr, of, outcomes) for of, outcomes in ROUNDING]
    return tuple(margins)


def _truncates(sources: Iterable[str | None], target: str | None) -> bool:
    from_float = any(source is not None and is_float(source) for source in sources)
    return from_float and target is not None and is_int(target)


def _elementwise_spec(call: Call) -> IndexSpec | None:
    if any(has_unknown_rank(a.struct_info) for a in call.args):
        call = _of_vectors(call)
    spec = spec_of(call)
    if spec is None or not spec.computes or len(spec.statements) != 1:
        return None
    statement = spec.statements[0]
    is_map = not statement.reduce and not statement.conditions and len(statement.writes) == 1
    return spec if is_map and not statement.writes[0].uses_index_vars else None


def _of_vectors(call: Call) -> Call:
    """Returns a call of vectors: an op that maps these elementwise does so for every rank."""
    args = []
    for arg in call.args:
        dtype = getattr(arg.struct_info, "dtype", None)
        is_known = isinstance(arg, Constant) or not has_unknown_rank(arg.struct_info)
        args.append(arg if is_known else Var("operand", TensorStructInfo(("n",), dtype)))
    return replace(call, args=tuple(args), struct_info=None)


def evaluated_margins(call: Call, margins: Iterable[Margin], args: list[Any]) -> Iterator[Array]:
    """Yields the values of margins of a call for its arguments; None if they are unknown."""
    spec = _elementwise_spec(call)
    assert spec is not None
    try:
        elements = {
            read.name: np.asarray(_at(args, spec.operands[read.operand].path))
            for read in spec.statements[0].reads
        }
    except (TypeError, IndexError):
        return
    for margin in margins:
        try:
            point = EvaluationPoint(elements)
            with np.errstate(all="ignore"):
                yield margin.of(*[evaluate(each, point) for each in margin.expr.args])  # type: ignore[arg-type]
        except (StructIRError, ValueError, KeyError, TypeError):
            yield None


def elementwise_value(call: Call, args: list[Any]) -> Array | None:
    """Returns the value of an elementwise op for arrays that broadcast; None for other calls."""
    spec = _elementwise_spec(call)
    if spec is None:
        return None
    statement = spec.statements[0]
    elements = {
        read.name: np.asarray(_at(args, spec.operands[read.operand].path))
        for read in statement.reads
    }
    value: ScalarExpr = statement.writes[0].value  # type: ignore[assignment]
    return evaluate(value, EvaluationPoint(elements))


def _at(args: Any, path: tuple[int, ...]) -> Any:
    for position in path:
        args = args[position]
    return args

"""Finds what programs decide by values, and how far a run is from deciding otherwise.

A decision is a function of the scalar body of an op that is discontinuous, or has a kink, where its
margin is 0: a comparison of two values, a rounding, a condition. A rewrite that is wrong in some
cases only, or that drops a case, differs in its decisions, so that a comparison of results should
see each outcome: a negative margin, 0 and a positive one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from structir.errors import StructIRError
from structir.ir.dtype import is_float, is_int
from structir.ir.expr import Call, Constant, Var
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.op import Op
from structir.ir.struct_info import TensorStructInfo
from structir.passes.manager.edge_plan import has_unknown_rank
from structir.passes.manager.value_numbers import value_numbers
from structir.projections.scalar_expr import ScalarExpr, ScalarOp, walk
from structir.projections.spec import IndexSpec
from structir.projections.values import EvaluationPoint, evaluate

Array = Any
Key = tuple[int, int]  # the value number of a call, and the margin among those of the call

HALF = 0.5
MOST_STARTS = 6
FAR = 1e4  # from another outcome


@attrs.frozen
class Margin:
    """A margin of a decision: an expression, and a function of the values of its arguments.

    `outcomes` are the signs of the margin that make a difference.
    """

    expr: ScalarOp
    of: Callable[..., Array]
    outcomes: tuple[int, ...] = (-1, 0, 1)


@attrs.frozen
class Closest:
    """The element of a margin that is closest to another outcome, and the input of that run."""

    value: float
    index: int  # of the element in the flat margin
    count: int  # of elements
    sample: Any


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
    for expr in dict.fromkeys(walk(value)):
        if isinstance(expr, ScalarOp):
            margins += [Margin(expr, of, outcomes) for of, outcomes in MARGINS.get(expr.fn, ())]
            if expr.fn == "cast" and _truncates(dtypes, expr.dtype):
                margins += [Margin(expr, of, outcomes) for of, outcomes in ROUNDING]
    return tuple(margins)


def _truncates(sources: Iterable[str | None], target: str | None) -> bool:
    from_float = any(source is not None and is_float(source) for source in sources)
    return from_float and target is not None and is_int(target)


def _elementwise_spec(call: Call) -> IndexSpec | None:
    definition = call.op.definition if type(call.op) is Op else None
    index_spec = getattr(definition, "index_spec", None)
    try:
        if index_spec is not None and any(has_unknown_rank(a.struct_info) for a in call.args):
            call = _of_vectors(call)
        spec: IndexSpec | None = None if index_spec is None else index_spec(call)
    except StructIRError:
        return None
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
                yield margin.of(*[evaluate(each, point) for each in margin.expr.args])
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


@attrs.define(eq=False)
class DecisionRecord:
    """The outcomes of the decisions of some calls, over all runs that record here."""

    calls: dict[int, tuple[Call, int, tuple[Margin, ...]]]  # by id: the call, its value number
    seen: dict[Key, set[int]] = attrs.Factory(dict)
    closest: dict[Key, Closest] = attrs.Factory(dict)
    starts: dict[Key, list[Closest]] = attrs.Factory(dict)  # an element of each of the first runs
    latest: dict[Key, Array] = attrs.Factory(dict)  # flat margins
    single: dict[Key, dict[tuple[Any, ...], dict[int, tuple[float, Any]]]] = attrs.Factory(
        dict
    )  # the greatest margins of one element with their inputs, by sizes and sign
    sample: Any = None  # the input of the run that records

    def record(self, call: Call, args: list[Any]) -> None:
        """Records the outcomes of a call for the values of its arguments."""
        _, number, margins = self.calls[id(call)]
        for k, values in enumerate(evaluated_margins(call, margins, args)):
            if values is not None and np.size(values):
                self._record((number, k), np.ravel(values), margins[k].outcomes)

    def _record(self, key: Key, values: Array, outcomes: tuple[int, ...]) -> None:
        self.latest[key] = values
        seen = self.seen.setdefault(key, set())
        starts = self.starts.setdefault(key, [])
        is_new = not starts or starts[-1].sample is not self.sample
        if len(starts) < MOST_STARTS and self.sample is not None and is_new:
            index = (7 * len(starts) + 1) % values.size
            known = [start.value for start in starts]
            if values[index] and np.isfinite(values[index]) and values[index] not in known:
                starts.append(Closest(float(values[index]), index, values.size, self.sample))
        if len(seen) == len(outcomes):
            return
        seen.update([sign for sign in outcomes if np.any(np.sign(values) == sign)])
        if values.size == 1 and self.sample is not None and np.isfinite(values[0]):
            self._record_single(key, float(values[0]))
        distance = np.abs(values)
        distance[~(distance > 0)] = np.inf
        index = int(np.argmin(distance))
        best = self.closest.get(key)
        if distance[index] < (np.inf if best is None else abs(best.value)):
            value = float(values[index])
            self.closest[key] = Closest(value, index, values.size, self.sample)

    def _record_single(self, key: Key, value: float) -> None:
        signs = self.single.setdefault(key, {}).setdefault(tuple(self.sample.sizes.items()), {})
        farthest, _ = signs.get(int(np.sign(value)), (-1.0, None))
        if farthest < abs(value) < FAR:
            signs[int(np.sign(value))] = abs(value), self.sample

    def outcomes(self) -> list[tuple[Key, int]]:
        """Returns the outcomes that make a difference."""
        keys = {
            (number, k): margin.outcomes
            for _, number, margins in self.calls.values()
            for k, margin in enumerate(margins)
        }
        return [(key, sign) for key, outcomes in keys.items() for sign in outcomes]

    def missing(self) -> list[tuple[Key, int]]:
        """Returns the outcomes that no run had."""
        return [(key, sign) for key, sign in self.outcomes() if sign not in self.seen.get(key, ())]


def changed_decisions(before: IRModule, after: IRModule, name: str) -> DecisionRecord:
    """Returns a record of the decisions that only one of two programs makes."""
    programs = value_numbers(before, name), value_numbers(after, name)
    common = {number for _, number in programs[0]} & {number for _, number in programs[1]}
    calls: dict[int, tuple[Call, int, tuple[Margin, ...]]] = {}
    for call, number in (*programs[0], *programs[1]):
        if number not in common and (margins := margins_of(call)):
            calls[id(call)] = call, number, margins
    return DecisionRecord(calls)

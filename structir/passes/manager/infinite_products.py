"""Excuses NaNs that sums of products have for infinities, whose results depend on their order.

`(a @ b) @ c` and `a @ (b @ c)` are equal for all reals. If an operand has an infinity, or a product
overflows, one of them may subtract infinities or multiply one by 0, where the other does not.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from structir.analysis.variables import walk_values
from structir.interpret.scope import Activation
from structir.ir.dtype import FLOATS, dtype_of
from structir.ir.expr import Call, Expr
from structir.ir.module import IRModule
from structir.ir.op import Op
from structir.ir.ragged_array import RaggedArray
from structir.opdef.memo import spec_of
from structir.passes.decompose import decompose
from structir.passes.manager.comparison import within_rounding
from structir.passes.manager.effects import EffectRecorder
from structir.passes.manager.input_sample import InputSample, outcome_of
from structir.passes.manager.non_finite_tests import tests_non_finite
from structir.passes.manager.perturbation import largest, leaves
from structir.projections.scalar_expr import ScalarOp
from structir.projections.spec import Statement

INFINITE, INVALID = "infinite", "invalid"


@attrs.frozen(eq=False)
class ProductRecorder(EffectRecorder):
    """An interpreter that records whether sums of products have infinities, and NaNs from them."""

    events: set[str] = attrs.field(factory=set, kw_only=True)
    sums: dict[int, bool] = attrs.field(factory=dict, kw_only=True)  # by call

    def evaluate(self, expr: Expr, scope: Activation) -> Any:
        value = EffectRecorder.evaluate(self, expr, scope)
        if type(expr) is Call and type(expr.op) is Op:
            if id(expr) not in self.sums:
                self.sums[id(expr)] = _sums_products(expr)
            if self.sums[id(expr)]:
                self._record([self.value(arg, scope) for arg in expr.args], value)
        return value

    def _record(self, args: list[Any], value: Any) -> None:
        numbers = [*_floats(tuple(args)), *_floats(value)]
        if any(np.isinf(each).any() for each in numbers):
            self.events.add(INFINITE)
            if any(np.isnan(each).any() for each in _floats(value)):
                self.events.add(INVALID)


Programs = tuple[IRModule, IRModule]  # before and after a pass


def differs_by_infinities(
    programs: Programs, name: str, sample: InputSample, actual: Any, tolerance: float
) -> bool:
    """Whether results agree but for NaNs of infinities, or of products of 0 and NaN, that one of
    two orders of operations has."""
    if len(leaves(sample.expected)) != len(leaves(actual)):
        return False
    if spreads_nans(programs, name, sample, actual, tolerance):
        return True
    is_invalid = _invalid_products(programs, name, sample.arguments)
    if is_invalid is not None and _agrees(programs, name, sample, actual, tolerance, is_invalid):
        return True
    return _subtracts_infinities(programs, name, sample) and _agrees(
        programs, name, sample, actual, tolerance, True
    )


def spreads_nans(
    programs: Programs, name: str, sample: InputSample, actual: Any, tolerance: float
) -> bool:
    """Whether inputs have NaNs, for which no program tests, and results agree but for further NaNs
    of the second program: it multiplies padding where a convolution has none."""
    if not any(np.isnan(each).any() for each in _floats(tuple(sample.arguments))):
        return False
    calls = [n for n in walk_values(decompose.transform(programs[1])) if type(n) is Call]
    if not any(map(_sums_products, calls)) or tests_non_finite(*programs):
        return False
    with_nans = _merged(actual, sample.expected, False)
    return within_rounding(programs[0], name, sample.arguments, with_nans, actual, tolerance)


def _agrees(
    programs: Programs,
    name: str,
    sample: InputSample,
    actual: Any,
    tolerance: float,
    is_invalid: bool,
) -> bool:
    """Whether results agree but for the NaNs of the first, and of the second if `is_invalid`."""
    merged = _merged(sample.expected, actual, is_invalid)
    arguments, expected = sample.arguments, sample.expected
    return within_rounding(programs[0], name, arguments, expected, merged, tolerance)


def _invalid_products(programs: Programs, name: str, arguments: list[Any]) -> bool | None:
    """Returns whether sums of products of the second program have NaNs; None if those of the first
    one have no infinities."""
    before, after = programs
    if not _is_extreme(arguments) or INFINITE not in _events(before, name, arguments):
        return None
    return INVALID in _events(after, name, arguments)


@attrs.frozen(eq=False)
class NaNRecorder(EffectRecorder):
    """An interpreter that records calls whose results have NaNs where no operand has any: whether
    each computes sums or differences."""

    sources: set[bool] = attrs.field(factory=set, kw_only=True)

    def evaluate(self, expr: Expr, scope: Activation) -> Any:
        value = EffectRecorder.evaluate(self, expr, scope)
        if type(expr) is Call and type(expr.op) is Op:
            args = [self.value(arg, scope) for arg in expr.args]
            has_nan = any(np.isnan(each).any() for each in _floats(tuple(args)))
            calls = any(map(callable, args))  # whose calls are recorded
            if not has_nan and not calls and any(np.isnan(n).any() for n in _floats(value)):
                self.sources.add(_adds(expr))
        return value


def _subtracts_infinities(programs: Programs, name: str, sample: InputSample) -> bool:
    """Whether all NaNs of the second program arise in sums of infinities: `x + a * (y - x)` has
    them where `(1 - a) * x + a * y` has none. If an input is infinite, and the programs test for no
    such numbers, NaNs may also arise in products of 0 and an infinity."""
    before, after = programs
    sources = _nan_sources(after, name, sample.arguments)
    is_infinite = any(np.isinf(each).any() for each in _floats(tuple(sample.arguments)))
    if not sources or (sources != {True} and (not is_infinite or tests_non_finite(before, after))):
        return False
    selects = not any(np.isnan(each).any() for each in _floats(sample.expected))
    # otherwise the first program selects other elements than its NaNs
    return not (selects and _nan_sources(before, name, sample.arguments))


def _nan_sources(module: IRModule, name: str, arguments: list[Any]) -> set[bool]:
    sources = set[bool]()
    outcome_of(NaNRecorder(decompose.transform(module), sources=sources), name, arguments)
    return sources


def _is_extreme(arguments: list[Any]) -> bool:
    """Whether inputs have infinities, or numbers whose products overflow."""
    return any(
        bool(np.any(np.abs(each.astype(np.float64)) > largest(each.dtype) ** 0.5))
        for each in _floats(tuple(arguments))
    )


def _events(module: IRModule, name: str, arguments: list[Any]) -> set[str]:
    """Returns what the sums of products in a run have; composite ops are decomposed."""
    events = set[str]()
    outcome_of(ProductRecorder(decompose.transform(module), events=events), name, arguments)
    return events


def _sums_products(call: Call) -> bool:
    return any(each.monoid == "sum" and len(each.reads) > 1 for each in _statements(call))


def _adds(call: Call) -> bool:
    """Whether a call computes sums, or sums or differences of two values."""
    statements = _statements(call)
    values = [write.value for statement in statements for write in statement.writes]
    return any(each.monoid == "sum" for each in statements) or any(
        isinstance(value, ScalarOp) and value.fn in ("add", "sub") for value in values
    )


def _statements(call: Call) -> tuple[Statement, ...]:
    """Returns the statements of the index signature of a call, if it has one."""
    spec = spec_of(call)
    return () if spec is None else spec.statements


def _floats(value: Any) -> list[Any]:
    arrays = [each for each in leaves(value) if isinstance(each, np.ndarray | np.generic)]
    return [each for each in arrays if dtype_of(np.asarray(each)) in FLOATS]


def _merged(expected: Any, actual: Any, is_invalid: bool) -> Any:
    """Returns the actual results, with the expected ones where these are NaN, or where the actual
    ones are and `is_invalid`."""
    if isinstance(expected, tuple) and isinstance(actual, tuple):
        return tuple([_merged(a, b, is_invalid) for a, b in zip(expected, actual, strict=True)])
    if isinstance(expected, RaggedArray) and isinstance(actual, RaggedArray):
        return actual.with_values(_merged(expected.values, actual.values, is_invalid))
    if not (_floats(expected) and _floats(actual)) or np.shape(expected) != np.shape(actual):
        return actual
    a, b = np.asarray(expected), np.asarray(actual)
    return np.where(np.isnan(a) | (is_invalid & np.isnan(b)), a, b)

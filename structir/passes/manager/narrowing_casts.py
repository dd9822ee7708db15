"""Compares two programs in float64 with the rounding of their casts to narrower floats.

Whether a pass drops a cast cannot be seen in float64, where casts do nothing, and hardly in the
dtypes of a program, where each operation rounds. Here only casts round, or only the results that
have the dtype of a cast; an equality in either model is enough. A pass that reassociates operations
is equal in the first one, and one that fuses operations with casts in the second one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import ml_dtypes
import numpy as np

from structir.analysis.variables import walk_values
from structir.errors import StructIRError
from structir.interpret.scope import Activation
from structir.ir.dtype import FLOATS, numpy_dtype
from structir.ir.expr import Call, Expr
from structir.ir.module import IRModule
from structir.ir.op import Op
from structir.passes.manager.comparison import DOUBLE, difference, within_rounding
from structir.passes.manager.effects import EffectRecorder
from structir.passes.manager.input_sample import InputSample, outcome_of
from structir.passes.manager.value_numbers import value_numbers
from structir.passes.manager.widening import adds_rounded_constants, widened_pairs

Rounded = Mapping[int, str]  # the dtype to which the result of a call is rounded, by its id


@attrs.frozen(eq=False)
class RoundingInterpreter(EffectRecorder):
    """An interpreter in float64 that rounds the results of some calls to narrower dtypes."""

    rounded: Rounded = attrs.field(factory=dict, kw_only=True)

    def evaluate(self, expr: Expr, scope: Activation) -> Any:
        value = EffectRecorder.evaluate(self, expr, scope)
        dtype = self.rounded.get(id(expr))
        if dtype is None:
            return value
        with np.errstate(all="ignore"):
            return np.asarray(value).astype(numpy_dtype(dtype)).astype(np.asarray(value).dtype)


@attrs.frozen(eq=False)
class CastModels:
    """Both models of two programs, whose casts differ."""

    name: str
    modules: tuple[IRModule, IRModule]  # in float64
    models: tuple[tuple[Rounded, Rounded], ...]

    def differing(self, wide: InputSample) -> tuple[Any, Any] | None:
        """Returns both results for a sample in float64 where only casts round; None if the results
        agree in one of the models, or a program has none."""
        results = [self._results(rounded, wide) for rounded in self.models]
        for expected, actual in results:
            if isinstance(expected, StructIRError) or isinstance(actual, StructIRError):
                return None  # compared elsewhere
            if difference(expected, actual, DOUBLE) is not None or within_rounding(
                self.modules[0],
                self.name,
                wide.arguments,
                expected,
                actual,
                DOUBLE,
                unrounded=outcome_of(EffectRecorder(self.modules[0]), self.name, wide.arguments),
            ):
                return None
        return results[0]

    def _results(self, rounded: tuple[Rounded, Rounded], wide: InputSample) -> tuple[Any, Any]:
        expected, actual = [
            outcome_of(RoundingInterpreter(module, rounded=each), self.name, wide.arguments)
            for module, each in zip(self.modules, rounded, strict=True)
        ]
        return expected, actual


def cast_models(before: IRModule, after: IRModule, name: str) -> CastModels | None:
    """Returns the models of two programs; None if they have the same casts to narrower floats, or
    different constants, which are rounded, too."""
    if not any(map(_casts, (before, after))):
        return None
    casts = [dict(_narrowing_calls(module, name)) for module in (before, after)]
    if casts[0].keys() == casts[1].keys() or adds_rounded_constants(before, after):
        return None
    dtypes = {dtype for each in casts for dtype in each.values()}
    wide: list[IRModule] = []
    only_casts: list[Rounded] = []
    of_dtypes: list[Rounded] = []
    for module in (before, after):
        widened = widened_pairs(module)
        if widened is None:
            return None
        calls = [(id(new), old) for old, new in widened[1] if type(old) is Call]
        wide.append(widened[0])
        only_casts.append({key: _dtype(old) for key, old in calls if _is_narrowing(old)})
        of_dtypes.append({key: _dtype(old) for key, old in calls if _dtype(old) in dtypes})
    models = (only_casts[0], only_casts[1]), (of_dtypes[0], of_dtypes[1])
    return CastModels(name, (wide[0], wide[1]), models)


def _casts(module: IRModule) -> bool:
    return any(type(node) is Call and _is_narrowing(node) for node in walk_values(module))


def _narrowing_calls(module: IRModule, name: str) -> Iterator[tuple[int, str]]:
    """Yields the value numbers and dtypes of calls that round to a narrower dtype."""
    for call, number in value_numbers(module, name):
        if _is_narrowing(call):
            yield number, _dtype(call)


def _is_narrowing(call: Call) -> bool:
    dtype = _dtype(call)
    if dtype not in FLOATS or type(call.op) is not Op:
        return False
    operands = [_dtype(arg) for arg in call.args]
    floats = [each for each in operands if each in FLOATS]
    return any(_precision(each) > _precision(dtype) for each in floats) and dtype not in floats


def _dtype(value: Any) -> str:
    return getattr(value.struct_info, "dtype", None) or ""


def _precision(dtype: str) -> int:
    finfo: Any = ml_dtypes.finfo
    return int(finfo(numpy_dtype(dtype)).nmant)

"""Perturbed runs: how far rounding may move the results of a program."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import Any

import attrs
import ml_dtypes
import numpy as np

from structir.interpret.machine import Machine
from structir.interpret.scope import Scope, Value
from structir.ir.dtype import FLOATS, dtype_of
from structir.ir.expr import Binding, Call, Constant, Expr

NARROW = FLOATS - {"float32", "float64"}


@attrs.frozen(eq=False)
class PerturbedInterpreter(Machine):
    """An interpreter that moves values by about as much as they may have been rounded: constants,
    and what bindings of some dtypes hold."""

    numbers: np.random.Generator = attrs.field(kw_only=True)
    wide: Mapping[str, float] = attrs.field(kw_only=True)  # relative distance; others by rounding
    among: Set[str] = attrs.field(kw_only=True, default=NARROW)  # dtypes of bindings
    casts: bool = attrs.field(kw_only=True, default=True)  # whether a cast may be left out

    def _bind(self, binding: Binding, value: Value, scope: Scope) -> None:
        among = self.among if self.casts else self.among & _dtypes_read(binding.value)
        Machine._bind(self, binding, nudged(value, self.numbers, self.wide, among), scope)

    def value(self, expr: Expr, scope: Scope) -> Value:
        value = Machine.value(self, expr, scope)
        return nudged(value, self.numbers, self.wide) if type(expr) is Constant else value


def _dtypes_read(value: Expr) -> set[str]:
    """The dtypes of a call's operands: what they round to is no loss of a cast."""
    args = value.args if isinstance(value, Call) else ()
    return {getattr(argument.struct_info, "dtype", None) or "" for argument in args}


def rounding(array: Any, wide: Mapping[str, float], among: Collection[str] = FLOATS) -> float:
    """How far, for its size, a nudge moves a value; other dtypes stay."""
    dtype = dtype_of(array)
    if dtype not in among:
        return 0.0
    finfo: Any = ml_dtypes.finfo
    return wide[dtype] if dtype in wide else float(finfo(array.dtype).eps)


def nudged(
    value: Any,
    numbers: np.random.Generator,
    wide: Mapping[str, float],
    among: Collection[str] = FLOATS,
) -> Any:
    """A value, each float in it moved by as much as it may have been rounded, or less."""
    if isinstance(value, list | tuple):
        return type(value)([nudged(item, numbers, wide, among) for item in value])
    distance = rounding(value, wide, among) if isinstance(value, np.ndarray | np.generic) else 0.0
    if not distance:
        return value
    noise = numbers.uniform(-1, 1, value.shape) * distance
    with np.errstate(all="ignore"):
        exact = value.astype(np.float64)
        return np.asarray(exact * (1 + noise) + noise * 1e-3).astype(value.dtype)


def leaves(value: Any) -> list[Any]:
    """The arrays and numbers of a result, each tuple's length among them."""
    if isinstance(value, tuple):
        return [len(value), *(leaf for item in value for leaf in leaves(item))]
    return [value]

"""Estimates by perturbed runs how far rounding may change the results of a program."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import Any

import attrs
import ml_dtypes
import numpy as np

from structir.errors import StructIRError
from structir.interpret.scope import Activation, Value
from structir.ir.dtype import FLOATS, dtype_of
from structir.ir.expr import Binding, Call, Constant, Expr
from structir.ir.op import Op
from structir.ir.ragged_array import RaggedArray
from structir.passes.manager.effects import EffectRecorder
from structir.projections.scalar_expr import ScalarOp

INTEGERS = 1024  # below which an integral float may be exact on purpose
ABSOLUTE = 1e-3  # the size of a number whose rounding error also perturbs smaller ones
NARROW = FLOATS - {"float32", "float64"}


@attrs.frozen(eq=False)
class PerturbedInterpreter(EffectRecorder):
    """An interpreter that perturbs constants, and bindings of some dtypes, by about their rounding
    error."""

    numbers: np.random.Generator = attrs.field(kw_only=True)
    wide: Mapping[str, float] = attrs.field(
        kw_only=True
    )  # relative perturbation by dtype; others by rounding
    among: Set[str] = attrs.field(kw_only=True, default=NARROW)  # dtypes of bindings
    exact: bool = attrs.field(
        kw_only=True, default=False
    )  # whether casts and integers are left unperturbed
    constants: Set[bytes] = attrs.field(kw_only=True, default=frozenset())  # only those, if any
    kept: list[int] = attrs.field(factory=list, kw_only=True)  # the ids of such constants
    selected: dict[int, list[Any]] = attrs.field(factory=dict, kw_only=True)  # numbers by call

    def _bind(self, binding: Binding, value: Value, scope: Activation) -> None:
        if self.constants:
            EffectRecorder._bind(self, binding, value, scope)
            return
        among = self.among & _dtypes_read(binding.value) if self.exact else self.among
        perturbed = perturb(value, self.numbers, self.wide, among, self.exact)
        for number in self._selected_numbers(binding.value):
            perturbed = np.where(value == number, value, perturbed).astype(value.dtype)
        EffectRecorder._bind(self, binding, perturbed, scope)

    def evaluate(self, expr: Expr, scope: Activation) -> Any:
        if type(expr) is Call:
            selects = not self.constants and self._selected_numbers(expr)
            self.kept[:] = [id(arg) for arg in expr.args] if selects else []
        return EffectRecorder.evaluate(self, expr, scope)

    def _selected_numbers(self, value: Any) -> list[Any]:
        """Returns the numbers that a call selects, such as those of masked elements: they have no
        rounding errors."""
        if type(value) is not Call or type(value.op) is not Op:
            return []
        if id(value) not in self.selected:
            numbers = [a.data for a in value.args if type(a) is Constant and a.data.size == 1]
            is_selection = bool(numbers) and _selects(value)
            self.selected[id(value)] = [n.reshape(())[()] for n in numbers] if is_selection else []
        return self.selected[id(value)]

    def value(self, expr: Expr, scope: Activation) -> Value:
        value = EffectRecorder.value(self, expr, scope)
        if type(expr) is not Constant or id(expr) in self.kept:
            return value
        if self.constants and expr.data.tobytes() not in self.constants:
            return value
        absolute = 0.0 if self.constants else ABSOLUTE
        return perturb(value, self.numbers, self.wide, exact=self.exact, absolute=absolute)


def _selects(call: Call) -> bool:
    index_spec = getattr(call.op.definition, "index_spec", None)  # type: ignore[attr-defined]
    try:
        spec = None if index_spec is None else index_spec(call)
    except StructIRError:
        return False
    if spec is None or not spec.computes or any(each.reduce for each in spec.statements):
        return False
    return all(_is_selection(w.value) for each in spec.statements for w in each.writes)


def _is_selection(value: Any) -> bool:
    if not isinstance(value, ScalarOp):
        return True
    return value.fn == "select" and all(map(_is_selection, value.args[1:]))


def _dtypes_read(value: Expr) -> set[str]:
    """Returns the dtypes of a call's operands: rounding to them is no loss of a cast."""
    args = value.args if isinstance(value, Call) else ()
    return {getattr(argument.struct_info, "dtype", None) or "" for argument in args}


def rounding(array: Any, wide: Mapping[str, float], among: Collection[str] = FLOATS) -> float:
    """Returns the relative size of the perturbation of a value; 0 for other dtypes."""
    dtype = dtype_of(array)
    if dtype not in among:
        return 0.0
    finfo: Any = ml_dtypes.finfo
    return wide[dtype] if dtype in wide else float(finfo(array.dtype).eps)


def largest(dtype: Any) -> float:
    """Returns the largest finite number of a dtype of floats."""
    finfo: Any = ml_dtypes.finfo
    return float(finfo(dtype).max)


def perturb(
    value: Any,
    numbers: np.random.Generator,
    wide: Mapping[str, float],
    among: Collection[str] = FLOATS,
    exact: bool = False,
    absolute: float = ABSOLUTE,
) -> Any:
    """Returns a value with each float perturbed by at most its rounding error, and that of a number
    of size `absolute`; `exact` leaves small integers and halves, where programs may be
    discontinuous, and perturbs by the relative error alone."""
    if isinstance(value, list | tuple):
        return type(value)([perturb(item, numbers, wide, among, exact, absolute) for item in value])
    if isinstance(value, RaggedArray):
        return value.with_values(perturb(value.values, numbers, wide, among, exact, absolute))
    distance = rounding(value, wide, among) if isinstance(value, np.ndarray | np.generic) else 0.0
    if not distance:
        return value
    noise = numbers.uniform(-1, 1, value.shape) * distance
    with np.errstate(all="ignore"):
        true = value.astype(np.float64)
        perturbed = true * (1 + noise) + (0 if exact else noise * absolute)
        unchanged = exact & (np.abs(true) < INTEGERS) & (2 * true == np.rint(2 * true))
        unchanged |= np.abs(true) == largest(value.dtype)  # which rounding does not make infinite
        return np.asarray(np.where(unchanged, true, perturbed)).astype(value.dtype)


def leaves(value: Any) -> list[Any]:
    """Returns the arrays and numbers of a result, each tuple's length among them."""
    if isinstance(value, tuple):
        return [len(value), *(leaf for item in value for leaf in leaves(item))]
    if isinstance(value, RaggedArray):
        return [value.values, value.offsets]
    return [value]

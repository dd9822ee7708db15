"""Estimates by perturbed runs how far rounding may change the results of a program."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import Any

import attrs
import ml_dtypes
import numpy as np

from structir.interpret.scope import Activation, Value
from structir.ir.dtype import FLOATS, dtype_of, is_int, numpy_dtype
from structir.ir.expr import Binding, Call, Constant, Expr, Var
from structir.ir.op import Op
from structir.ir.ragged_array import RaggedArray
from structir.opdef.memo import spec_of
from structir.passes.manager.effects import EffectRecorder
from structir.projections.scalar_expr import ScalarOp, distinct_nodes

EXACT_FUNCTIONS = frozenset(
    {
        *("lt", "le", "gt", "ge", "eq", "ne", "min", "max", "select", "neg", "abs", "sign"),
        *("floor", "ceil", "trunc", "round", "and", "or", "xor", "not", "isnan", "cast"),
    }
)
ORDERS = ("max", "min", "argmax", "argmin")
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
    # by the id of a perturbed array: that array, and the one without rounding errors
    exact_arrays: dict[int, tuple[Any, Any]] = attrs.field(factory=dict, kw_only=True)
    exact_calls: dict[int, bool] = attrs.field(factory=dict, kw_only=True)  # by call
    exact_results: dict[int, Any] = attrs.field(factory=dict, kw_only=True)  # by id
    reads_exact: list[bool] = attrs.field(factory=lambda: [False], kw_only=True)
    inlined: dict[int, tuple[Expr, Call]] = attrs.field(factory=dict, kw_only=True)  # by call

    def _bind(self, binding: Binding, value: Value, scope: Activation) -> None:
        if self.constants:
            EffectRecorder._bind(self, binding, value, scope)
            return
        is_exact = id(value) in self.exact_results
        among = self.among & _dtypes_read(binding.value) if self.exact else self.among
        perturbed = perturb(value, self.numbers, self.wide, among, self.exact)
        for number in self._selected_numbers(self._with_constants(binding.value)):
            perturbed = np.where(value == number, value, perturbed).astype(value.dtype)
        if is_exact:
            self.exact_arrays[id(perturbed)] = perturbed, value
        EffectRecorder._bind(self, binding, perturbed, scope)

    def evaluate(self, expr: Expr, scope: Activation) -> Any:
        expr = self._with_constants(expr)
        if type(expr) is Call:
            selects = not self.constants and self._selected_numbers(expr)
            self.kept[:] = [id(arg) for arg in expr.args] if selects else []
            if self.exact_arrays and self._is_exact(expr, scope):
                self.reads_exact[0] = True
                try:
                    value = EffectRecorder.evaluate(self, expr, scope)
                finally:
                    self.reads_exact[0] = False
                self.exact_results[id(value)] = value
                return value
        return EffectRecorder.evaluate(self, expr, scope)

    def _with_constants(self, expr: Expr) -> Expr:
        """Returns a call with constants for the variables that are bound to them."""
        if type(expr) is not Call:
            return expr
        if id(expr) not in self.inlined:
            self.inlined[id(expr)] = expr, self.constant_values().in_any_call(expr)
        return self.inlined[id(expr)][1]

    def _is_exact(self, call: Call, scope: Activation) -> bool:
        """Whether a call rounds no result, and its operands are inputs or exact results of these:
        perturbed operands would hide what it decides at a tie."""
        if id(call) not in self.exact_calls:
            self.exact_calls[id(call)] = rounds_nothing(call)
        return self.exact_calls[id(call)] and all(
            type(arg) is Constant
            or (isinstance(arg, Var) and self._has_exact_value(scope.value(arg)))
            for arg in call.args
        )

    def _has_exact_value(self, value: Any) -> bool:
        is_array = isinstance(value, np.ndarray | np.generic)
        is_float = is_array and dtype_of(np.asarray(value)) in FLOATS
        return id(value) in self.exact_arrays if is_float else not isinstance(value, tuple)

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
        if self.reads_exact[0]:
            return self.exact_arrays[id(value)][1] if id(value) in self.exact_arrays else value
        if type(expr) is not Constant or id(expr) in self.kept:
            return value
        if self.constants and expr.data.tobytes() not in self.constants:
            return value
        absolute = 0.0 if self.constants else ABSOLUTE
        return perturb(value, self.numbers, self.wide, exact=self.exact, absolute=absolute)


def _selects(call: Call) -> bool:
    spec = spec_of(call)
    if spec is None or not spec.computes or any(each.reduce for each in spec.statements):
        return False
    return all(_is_selection(w.value) for each in spec.statements for w in each.writes)


def rounds_nothing(call: Call) -> bool:
    """Whether an op only moves, selects, compares and rounds to integers."""
    spec: Any = spec_of(call)
    if spec is None or not spec.computes:  # such as a bucket, or an order
        dtype = getattr(call.struct_info, "dtype", None)
        return type(call.op) is Op and dtype is not None and is_int(dtype)
    is_order = all(not each.reduce or each.monoid in ORDERS for each in spec.statements)
    values = [write.value for each in spec.statements for write in each.writes]
    fns = {e.fn for v in values for e in distinct_nodes(v) if isinstance(e, ScalarOp)}
    return is_order and fns <= EXACT_FUNCTIONS and not ("cast" in fns and _narrows(call))


def _narrows(call: Call) -> bool:
    dtypes = [getattr(each.struct_info, "dtype", None) for each in (call, *call.args)]
    if dtypes[0] not in FLOATS:
        return False
    finfo: Any = ml_dtypes.finfo
    bits = [int(finfo(numpy_dtype(each)).nmant) for each in dtypes if each in FLOATS]
    return len(bits) < 2 or bits[0] < max(bits)


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
    finfo: Any = ml_dtypes.finfo
    with np.errstate(all="ignore"):
        true = value.astype(np.float64)
        least = float(finfo(value.dtype).smallest_subnormal) / distance
        perturbed = true * (1 + noise) + noise * (least if exact else max(least, absolute))
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

"""Ops on extreme numbers: each compiled result is that of the interpreter, or that of float64
arithmetic. No other overflow, no other NaN, and the sign of exact zeros."""

from __future__ import annotations

import warnings
from functools import cache
from random import Random
from typing import Any

import attrs
import ml_dtypes
import numpy as np

from structir.errors import StructIRError
from structir.ir.dtype import is_float, numpy_dtype
from structir.ir.op import registered_ops
from structir.lazy import lazy_module
from structir.tools.comparison import Disagreement

structir = lazy_module("structir")

DTYPES = ("float32", "float32", "float64", "float16", "bfloat16")
LENGTHS = (1, 2, 3, 7, 8, 9, 16, 33, 100, 1000)
FORMS = ("{}(x)", "{}(x, axis=[-1])", "{}(x, axis=0)", "{}(x, y)")  # an op has those it accepts
TEST_SEEDS = 12
ROUNDINGS = 64  # allowed, in units of the last place


@attrs.frozen
class OpForm:
    """A call of one op; whether each element of the result depends on one element of `x`."""

    text: str
    is_elementwise: bool

    def program(self, dtype: str) -> Any:
        """Returns the function of the call on matrices of a dtype."""
        params = ", ".join([f"{name}: R.Tensor(('n', 'm'), '{dtype}')" for name in "xy"])
        return structir.parse(f"@R.function\ndef main({params}):\n    return {self.text}\n")

    def interpreted(self, dtype: str, operands: Any) -> Any:
        """Returns the result of the interpreter on operands of a dtype."""
        typed = [a.astype(numpy_dtype(dtype)) for a in operands]
        return structir.interpret(self.program(dtype), "main", *typed)


@attrs.frozen
class ExtremeCall:
    """A call and its operands."""

    call: OpForm
    dtype: str
    operands: tuple[Any, ...]


@cache
def calls() -> tuple[OpForm, ...]:
    """Returns the calls of ops that are valid on float matrices and have one float result."""
    names = [
        op.name for op in registered_ops() if type(op.definition).__module__.startswith("structir.")
    ]
    texts = [form.format(f"R.{name}") for name in sorted(names) for form in FORMS]
    return tuple([call for call in map(_call, texts) if call is not None])


def _call(text: str) -> OpForm | None:
    x = np.array([[0.5, 1.5], [2.5, 3.5]], "float32")
    changed = x.copy()
    changed[0, 0] = 0.75
    call = OpForm(text, False)
    try:
        a, b, again = [call.interpreted("float32", (each, x)) for each in (x, changed, x)]
    except StructIRError:
        return None
    if (
        not isinstance(a, np.ndarray)
        or not is_float(a.dtype.name)
        or not np.array_equal(a, again, True)
    ):
        return None
    same = a.shape == x.shape and np.array_equal(np.delete(a, 0), np.delete(b, 0), True)
    return OpForm(text, same)


def sample(random: Random) -> ExtremeCall:
    """Generates operands of extreme numbers, or rows of alternating magnitudes."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        call, dtype = random.choice(calls()), random.choice(DTYPES)
    shape = random.randint(1, 3), random.choice(LENGTHS)
    return ExtremeCall(call, dtype, tuple([_operand(random, dtype, shape) for _ in range(2)]))


def _operand(random: Random, dtype: str, shape: tuple[int, int]) -> Any:
    finfo = _finfo(numpy_dtype(dtype))
    greatest, size = float(finfo.max), shape[0] * shape[1]
    half = greatest**0.5
    values = [0.0, float(finfo.smallest_subnormal), float(finfo.tiny), 0.1, 1.0, 10.0, 88.0]
    values += [half, greatest / 3, greatest]
    values += [-v for v in values]
    how = random.randrange(4)
    if how == 0:
        pair = random.choice([(half, 1 / half), (10.0, 0.1), (greatest, -greatest), (-0.0, 0.0)])
        elements = [pair[k % 2] for k in range(size)]
    elif how == 1:
        elements = [random.choice(values)] * size
    else:
        more = [float("inf"), float("-inf"), float("nan")] if how == 2 else []
        elements = random.choices([*values, *more], k=size)
    return np.array(elements).reshape(shape).astype(numpy_dtype(dtype))


def check(case: ExtremeCall) -> None:
    """Compares every element of the compiled result."""
    call, dtype = case.call, case.dtype
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            narrow = call.interpreted(dtype, case.operands)
        except StructIRError:
            return
        kind = narrow.dtype
        wide = call.interpreted("float64", case.operands).astype(kind)
        actual = structir.compile(call.program(dtype))["main"](*case.operands)
        if actual.shape != narrow.shape or actual.dtype != kind:
            raise Disagreement(f"expected {narrow!r}, found {actual!r}")
        valid = _valid(case, actual, narrow, wide)
    if not valid.all():
        index = np.unravel_index(int(np.argmin(valid)), valid.shape)
        raise Disagreement(
            f"{call.text} {dtype} at {index}: interpreted {narrow[index]}, "
            f"in float64 {wide[index]}, compiled {actual[index]}"
        )


def _finfo(dtype: Any) -> Any:
    finfo: Any = ml_dtypes.finfo
    return finfo(dtype)


def _valid(case: ExtremeCall, *results: Any) -> Any:
    """Returns for each element of the compiled result whether it is right."""
    unit, least = float(_finfo(results[0].dtype).eps), float(_finfo(results[0].dtype).tiny)
    actual, narrow, wide = [a.astype("float64") for a in results]
    absolute = least * unit + ROUNDINGS * _finite(np.abs(narrow - wide))
    valid = np.zeros(actual.shape, bool)
    if not case.call.is_elementwise:  # terms of any order
        sizes = [_finite(np.abs(a.astype("float64"))) for a in case.operands]
        absolute = absolute + unit * max([a.size * a.max(initial=0) for a in sizes])
        valid |= ~np.isfinite(actual) & _partial_sums_overflow(sizes, results[0].dtype)
    for expected in (narrow, wide):
        close = np.abs(actual - expected) <= absolute + ROUNDINGS * unit * np.abs(expected)
        valid |= (close & np.isfinite(expected)) | (actual == expected)
        valid |= np.isnan(actual) & np.isnan(expected)
    if case.call.is_elementwise:
        zero = (narrow == 0) & (wide == 0) & (np.signbit(narrow) == np.signbit(wide))
        valid &= ~zero | (actual != 0) | (np.signbit(actual) == np.signbit(narrow))
    return valid


def _partial_sums_overflow(sizes: list[Any], dtype: Any) -> bool:
    """Returns whether the sum of some terms is beyond the dtype: sums in another order, also those
    of NumPy, are then infinite or NaN."""
    return max([float(np.sum(a)) for a in sizes]) > float(_finfo(dtype).max)


def _finite(values: Any) -> Any:
    return np.where(np.isfinite(values), values, 0.0)

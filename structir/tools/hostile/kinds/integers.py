"""Ops on integers of every width, their extremes and zeros: the compiled result is exactly that of
the interpreter, and neither ends the process."""

from __future__ import annotations

import warnings
from functools import cache
from random import Random
from typing import Any

import attrs
import numpy as np

from structir.errors import StructIRError
from structir.ir.dtype import INTS, int_bits, numpy_dtype
from structir.ir.op import registered_ops
from structir.lazy import lazy_module
from structir.tools.comparison import Disagreement

structir = lazy_module("structir")

DTYPES = (*sorted(INTS), "bool")
# NumPy releases the GIL for arrays of more than 500 elements
SHAPES = ((1, 1), (2, 3), (3, 17), (3, 400), (40, 33), (0, 4))
FORMS = ("{}(x)", "{}(x, axis=-1)", "{}(x, axis=[-1])", "{}(x, y)", "{}(x, y, axis=0)")
TEST_SEEDS = 12


@attrs.frozen
class IntegerCall:
    """A call of one op on two matrices of a dtype."""

    call: str
    dtype: str
    operands: tuple[Any, ...]

    @property
    def text(self) -> str:
        """The program of the call."""
        params = ", ".join([f"{name}: R.Tensor(('n', 'm'), '{self.dtype}')" for name in "xy"])
        return f"@R.function\ndef main({params}):\n    return {self.call}\n"

    def __str__(self) -> str:
        return self.text


@cache
def calls() -> tuple[str, ...]:
    """Returns the calls of ops that are valid on matrices of int32 and have one result."""
    names = [
        op.name for op in registered_ops() if type(op.definition).__module__.startswith("structir.")
    ]
    texts = [form.format(f"R.{name}") for name in sorted(names) for form in FORMS]
    return tuple(filter(_is_valid, texts))


def _is_valid(call: str) -> bool:
    x = np.array([[1, 2, 2], [3, 4, 1], [0, 1, 2]], "int32")
    try:
        module = structir.parse(IntegerCall(call, "int32", ()).text)
        results = [structir.interpret(module, "main", x, x) for _ in range(2)]
    except StructIRError:
        return False
    first, second = results
    return isinstance(first, np.ndarray) and np.array_equal(first, second, equal_nan=True)


def sample(random: Random) -> IntegerCall:
    """Generates a call, and operands of extreme and small numbers."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        call = random.choice(calls())
    dtype, shape = random.choice(DTYPES), random.choice(SHAPES)
    return IntegerCall(call, dtype, tuple([_operand(random, dtype, shape) for _ in range(2)]))


def _operand(random: Random, dtype: str, shape: tuple[int, int]) -> Any:
    size = shape[0] * shape[1]
    if dtype == "bool":
        return np.array(random.choices([False, True], k=size), bool).reshape(shape)
    bits, unsigned = int_bits(dtype), dtype.startswith("u")
    least, greatest = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    values = [0, 1, 2, 3, greatest, greatest - 1, greatest // 2, least, least + 1]
    values += [] if unsigned else [-1, -2]
    chosen = random.choice([values, [0], values[:4], [random.choice(values)]])
    wide = np.array(random.choices(chosen, k=size), "uint64" if unsigned else "int64")
    return wide.astype(numpy_dtype(dtype)).reshape(shape)


def check(case: IntegerCall) -> None:
    """Compares the compiled result with that of the interpreter."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            module = structir.parse(case.text)
            expected = structir.interpret(module, "main", *case.operands)
        except StructIRError:
            return
        actual = structir.compile(module)["main"](*case.operands)
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        raise Disagreement(f"expected {expected!r}, found {actual!r}")
    if expected.dtype.kind == "f":
        is_right = np.allclose(actual, expected, rtol=1e-5, equal_nan=True)
    else:
        is_right = np.array_equal(actual, expected)
    if not is_right:
        raise Disagreement(
            f"{case}\nexpected {expected!r}\nfound {actual!r}\nx, y: {case.operands}"
        )

"""Powers and roots: the scalar functions, and the op of the cube root."""

import math
from typing import Any

from structir.ir.dtype import dtype_name, is_float
from structir.ir.scalar_functions import declare
from structir.lazy import lazy_module
from structir.opdef.define import op
from structir.opdef.examples import ExactValues
from structir.projections import scalar_expr as e
from structir.projections.scalar_expr import ScalarExpr

np = lazy_module("numpy")
vector = lazy_module("structir.targets.cpu.math.logarithm")
wide = lazy_module("structir.targets.cpu.math.wide_logarithm")


def _power(x: Any, y: Any) -> Any:
    if is_float(dtype_name(x.dtype)):
        return np.power(_with_signless_limits(x, y), y)
    if y.dtype.kind == "u":
        return np.power(x, y)
    inverse = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (y & 1), 0)).astype(x.dtype)
    return np.where(y < 0, inverse, np.power(x, np.maximum(y, 0)))


def _with_signless_limits(x: Any, y: Any) -> Any:
    """Returns the bases, with -0.0 and -inf as 0.0 and inf where the exponent is 0.5.

    The powers are equal by IEEE 754, but NumPy computes the square root for some layouts of the
    exponents.
    """
    is_root = y == 0.5
    if not is_root.any():
        return x
    return np.where(is_root & ((x == 0) | np.isinf(x)), np.abs(x), x)


declare(
    "pow",
    kind="",  # kernels have an operator
    rule="same",
    count=2,
    numpy=_power,
    slopes=(lambda x, y: y * e.pow(x, y - 1), lambda x, y: e.pow(x, y) * e.log(x)),
    single=lambda: vector.pow,
    double=lambda: wide.pow,
    cost=30,
    domain=(0, math.inf),
)
declare(
    "sqrt",
    numpy="sqrt",
    slopes=(lambda x: 0.5 / e.sqrt(x),),
    intrinsic="sqrt",
    source="square_root({0})",
    cost=6,
    domain=(0, math.inf),
    monotone="increasing",
)
declare(
    "rsqrt",
    numpy=lambda x: np.reciprocal(np.sqrt(x)),
    slopes=(lambda x: -0.5 * e.rsqrt(x) / x,),
    body=lambda x: 1 / e.sqrt(x),
    source="{dtype}(1) / square_root({0})",
    cost=10,
    domain=(0, math.inf),
    monotone="decreasing",
)


def _cube_root(x: Any) -> ScalarExpr:
    """Returns the power 1/3 of the absolute value, improved by a step of Newton's method."""
    size = e.abs(x)
    root = e.pow(size, 1 / 3)
    step = (root - size / (root * root)) / 3
    root = root - e.select(root > 0, e.select(root < math.inf, step, 0.0), 0.0)
    result: ScalarExpr = e.select(x > 0, root, e.select(x < 0, -root, x))
    return result


declare(
    "cbrt",
    kind="",
    numpy="cbrt",
    slopes=(lambda x: 1 / (3 * e.cbrt(x) * e.cbrt(x)),),
    body=_cube_root,
    cost=40,
    parity="odd",
    monotone="increasing",
)


@op("x[*s] @ F -> y[*s] @ F")
def cbrt(x: ScalarExpr) -> ScalarExpr:
    """Computes the cube root, that of a negative number being negative."""
    return e.cbrt(x)


cbrt.example(ExactValues("float32", ((8.0, -27.0, 0.125), (1000.0, -64.0, 0.5))))

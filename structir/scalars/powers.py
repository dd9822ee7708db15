"""Powers and roots."""

import math
from typing import Any

from structir.ir.dtype import dtype_name, is_float
from structir.ir.scalar_functions import declare
from structir.lazy import lazy_module
from structir.projections import scalar_expr as e

np = lazy_module("numpy")
vector = lazy_module("structir.backend.math.logarithm")
wide = lazy_module("structir.backend.math.wide_logarithm")


def _power(x: Any, y: Any) -> Any:
    if is_float(dtype_name(x.dtype)) or y.dtype.kind == "u":
        return np.power(x, y)
    inverse = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (y & 1), 0)).astype(x.dtype)
    return np.where(y < 0, inverse, np.power(x, np.maximum(y, 0)))


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

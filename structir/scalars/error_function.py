"""The error function."""

import math

from structir.ir.scalar_functions import declare
from structir.lazy import lazy_module
from structir.projections import scalar_expr as e

special = lazy_module("scipy.special")
vector = lazy_module("structir.backend.math.error_function")

declare(
    "erf",
    numpy=lambda x: special.erf(x),
    slopes=(lambda x: 2 / math.sqrt(math.pi) * e.exp(-x * x),),
    single=lambda: vector.erf,
    double=lambda: math.erf,
    # 1 + erf(x) needs no digits of erf(x) below those of 1.
    plus_one=lambda x, dtype: e.ScalarOp("erf_plus_one", (x,)) if dtype == "float32" else None,
    parity="odd",
    monotone="increasing",
)
declare(
    "erf_plus_one",
    rule="",
    numpy=lambda x: special.erf(x) + 1,
    single=lambda: vector.erf_plus_one,
    body=lambda x: e.erf(x) + 1,
    monotone="increasing",
)

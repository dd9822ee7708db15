"""The error function, its complement and its inverse: the scalar functions, and the ops of the last
two."""

import math

from structir.ir.scalar_functions import declare
from structir.lazy import lazy_module
from structir.opdef.define import op
from structir.projections import scalar_expr as e
from structir.projections.scalar_expr import ScalarExpr

np = lazy_module("numpy")
special = lazy_module("scipy.special")
vector = lazy_module("structir.backend.math.error_function")
wide = lazy_module("structir.backend.math.wide_error_function")

declare(
    "erf",
    numpy=lambda x: special.erf(x),
    slopes=(lambda x: 2 / math.sqrt(math.pi) * e.exp(-x * x),),
    single=lambda: vector.erf,
    double=lambda: wide.erf,
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
declare(
    "erfc",
    numpy=lambda x: special.erfc(x),
    slopes=(lambda x: -2 / math.sqrt(math.pi) * e.exp(-x * x),),
    single=lambda: vector.erfc,
    double=lambda: wide.erfc,
    monotone="decreasing",
)
declare(
    "erfinv",
    numpy=lambda x: np.where(x == 0, x, special.erfinv(x)),  # SciPy loses the sign of zero
    slopes=(lambda x: math.sqrt(math.pi) / 2 * e.exp(e.erfinv(x) * e.erfinv(x)),),
    single=lambda: vector.erfinv,
    double=lambda: wide.erfinv,
    cost=30,
    domain=(-1, 1),
    parity="odd",
    monotone="increasing",
)


@op("x[*s] @ F -> y[*s] @ F")
def erfc(x: ScalarExpr) -> ScalarExpr:
    """Computes 1 - erf(x), with its full relative accuracy for large x."""
    return e.erfc(x)


@op("x[*s] @ F -> y[*s] @ F")
def erfinv(x: ScalarExpr) -> ScalarExpr:
    """Computes the inverse of erf: infinite at -1 and 1, NaN outside of them."""
    return e.erfinv(x)

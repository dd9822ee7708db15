"""The complementary error function: the scalar function and its op."""

import math
from typing import Any

from structir.ir.scalar_functions import declare
from structir.lazy import lazy_module
from structir.opdef.define import op
from structir.projections import scalar_expr as e
from structir.projections.scalar_expr import ScalarExpr

special = lazy_module("scipy.special")


def _vector_form(x: Any) -> Any:
    kind = type(x)
    return kind(math.erfc(x))


declare(
    "erfc",
    numpy=lambda x: special.erfc(x),
    slopes=(lambda x: -2 / math.sqrt(math.pi) * e.exp(-x * x),),
    single=lambda: _vector_form,
    double=lambda: math.erfc,
    monotone="decreasing",
)


@op("x[*s] @ F -> y[*s] @ F")
def erfc(x: ScalarExpr) -> ScalarExpr:
    """Computes 1 - erf(x), with its full relative accuracy for large x."""
    return e.erfc(x)

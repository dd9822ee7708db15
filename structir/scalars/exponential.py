"""Exponential functions and logarithms, and the ops of those that are accurate near 0."""

import math
from typing import Any

from structir.ir.scalar_functions import declare
from structir.lazy import lazy_module
from structir.opdef.define import op
from structir.projections import scalar_expr as e
from structir.projections.scalar_expr import ScalarExpr

np = lazy_module("numpy")
vector = lazy_module("structir.targets.cpu.math.exponential")
wide = lazy_module("structir.targets.cpu.math.wide")
wide_logarithm = lazy_module("structir.targets.cpu.math.wide_logarithm")
logarithm = lazy_module("structir.targets.cpu.math.logarithm")

LEAST_LOGIT = {4: -80.0, 8: -700.0}  # by bytes: -log of a large number


def _sigmoid(x: Any) -> Any:
    """Computes the logistic function, which is exp(x) where exp(-x) overflows."""
    value = np.asarray(np.exp(np.negative(x)))
    value += 1
    np.reciprocal(value, out=value)
    small = x < LEAST_LOGIT[x.dtype.itemsize]
    return np.where(small, np.exp(x), value) if small.any() else value


declare(
    "exp",
    numpy="exp",
    slopes=(lambda x: e.exp(x),),
    single=lambda: vector.exp,
    double=lambda: wide.exp,
    cost=10,
    monotone="increasing",
)
declare(
    "exp_nonpositive",
    rule="",
    numpy=lambda x: np.exp(np.minimum(x, 0)),
    single=lambda: vector.exp_nonpositive,
    double=lambda: wide.exp_nonpositive,
    cost=10,
    monotone="increasing",
)
declare(
    "exp2",
    numpy="exp2",
    slopes=(lambda x: math.log(2) * e.exp2(x),),
    single=lambda: vector.exp2,
    double=lambda: wide.exp2,
    cost=10,
    monotone="increasing",
)
declare(
    "expm1",
    numpy="expm1",
    slopes=(lambda x: e.exp(x),),
    single=lambda: vector.expm1,
    double=lambda: wide.expm1,
    monotone="increasing",
)
declare(
    "sigmoid",
    numpy=_sigmoid,
    slopes=(lambda x: e.sigmoid(x) * (1 - e.sigmoid(x)),),
    single=lambda: vector.sigmoid,
    double=lambda: wide.sigmoid,
    cost=14,
    monotone="increasing",
)
declare(
    "log",
    numpy="log",
    slopes=(lambda x: 1 / x,),
    single=lambda: logarithm.log,
    double=lambda: wide_logarithm.log,
    domain=(0, math.inf),
    monotone="increasing",
)
declare(
    "log1p",
    numpy="log1p",
    slopes=(lambda x: 1 / (1 + x),),
    single=lambda: logarithm.log1p,
    double=lambda: wide_logarithm.log1p,
    domain=(-1, math.inf),
    monotone="increasing",
)


@op("x[*s] @ F -> y[*s] @ F")
def exp2(x: ScalarExpr) -> ScalarExpr:
    """Computes 2 to the power of x."""
    return e.exp2(x)


@op("x[*s] @ F -> y[*s] @ F")
def expm1(x: ScalarExpr) -> ScalarExpr:
    """Computes exp(x) - 1, with its full relative accuracy near 0."""
    return e.expm1(x)


@op("x[*s] @ F -> y[*s] @ F")
def log1p(x: ScalarExpr) -> ScalarExpr:
    """Computes log(1 + x), with its full relative accuracy near 0."""
    return e.log1p(x)

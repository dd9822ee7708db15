"""Hyperbolic functions and their inverses."""

import math

from structir.ir.scalar_functions import declare
from structir.lazy import lazy_module
from structir.projections import scalar_expr as e

vector = lazy_module("structir.targets.cpu.math.exponential")
wide = lazy_module("structir.targets.cpu.math.wide")
logarithm = lazy_module("structir.targets.cpu.math.logarithm")
wide_logarithm = lazy_module("structir.targets.cpu.math.wide_logarithm")

declare(
    "sinh",
    numpy="sinh",
    slopes=(lambda x: e.cosh(x),),
    single=lambda: vector.sinh,
    double=lambda: wide.sinh,
    parity="odd",
    monotone="increasing",
)
declare(
    "cosh",
    numpy="cosh",
    slopes=(lambda x: e.sinh(x),),
    single=lambda: vector.cosh,
    double=lambda: wide.cosh,
    parity="even",
)
declare(
    "tanh",
    numpy="tanh",
    slopes=(lambda x: 1 - e.tanh(x) * e.tanh(x),),
    single=lambda: vector.tanh,
    double=lambda: wide.tanh,
    # One exponential, and no polynomial beside it.
    plus_one=lambda x, dtype: 2 / (e.exp(x * -2) + 1),
    parity="odd",
    monotone="increasing",
)
declare(
    "asinh",
    numpy="arcsinh",
    slopes=(lambda x: e.rsqrt(x * x + 1),),
    single=lambda: logarithm.asinh,
    double=lambda: wide_logarithm.asinh,
    parity="odd",
    monotone="increasing",
)
declare(
    "acosh",
    numpy="arccosh",
    slopes=(lambda x: e.rsqrt(x * x - 1),),
    single=lambda: logarithm.acosh,
    double=lambda: wide_logarithm.acosh,
    domain=(1, math.inf),
    monotone="increasing",
)
declare(
    "atanh",
    numpy="arctanh",
    slopes=(lambda x: 1 / (1 - x * x),),
    single=lambda: logarithm.atanh,
    double=lambda: wide_logarithm.atanh,
    domain=(-1, 1),
    parity="odd",
    monotone="increasing",
)

"""Trigonometric functions and their inverses."""

from structir.ir.scalar_functions import declare
from structir.lazy import lazy_module
from structir.projections import scalar_expr as e

vector = lazy_module("structir.targets.cpu.math.trigonometric")
wide = lazy_module("structir.targets.cpu.math.wide_trigonometric")

declare(
    "sin",
    numpy="sin",
    slopes=(lambda x: e.cos(x),),
    single=lambda: vector.sin,
    double=lambda: wide.sin,
    parity="odd",
)
declare(
    "cos",
    numpy="cos",
    slopes=(lambda x: -e.sin(x),),
    single=lambda: vector.cos,
    double=lambda: wide.cos,
    parity="even",
)
declare(
    "tan",
    numpy="tan",
    slopes=(lambda x: 1 + e.tan(x) * e.tan(x),),
    single=lambda: vector.tan,
    double=lambda: wide.tan,
    parity="odd",
)
declare(
    "asin",
    numpy="arcsin",
    slopes=(lambda x: e.rsqrt(1 - x * x),),
    single=lambda: vector.asin,
    double=lambda: wide.asin,
    domain=(-1, 1),
    parity="odd",
    monotone="increasing",
)
declare(
    "acos",
    numpy="arccos",
    slopes=(lambda x: -e.rsqrt(1 - x * x),),
    single=lambda: vector.acos,
    double=lambda: wide.acos,
    domain=(-1, 1),
    monotone="decreasing",
)
declare(
    "atan",
    numpy="arctan",
    slopes=(lambda x: 1 / (1 + x * x),),
    single=lambda: vector.atan,
    double=lambda: wide.atan,
    parity="odd",
    monotone="increasing",
)
declare(
    "atan2",
    count=2,
    numpy="arctan2",
    slopes=(lambda y, x: x / (x * x + y * y), lambda y, x: -y / (x * x + y * y)),
    single=lambda: vector.atan2,
    double=lambda: wide.atan2,
)

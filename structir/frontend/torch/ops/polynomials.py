"""Mappings of orthogonal polynomials of a constant degree, by their recurrences."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from structir.frontend.scalars import number
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op
from structir.ir.dtype import is_float
from structir.ir.expr import Expr
from structir.script import R

MAX_DEGREE = 200


@attrs.frozen
class Family:
    """Polynomials p(k + 1) = ((a(k) * x + b(k)) * p(k) - c(k) * p(k - 1)) / d(k), where p(0) = 1
    and p(1) = slope * x + offset."""

    slope: float
    offset: float
    coefficients: Callable[[int], tuple[float, float, float, float]]


CHEBYSHEV = {"t": (1, 0), "u": (2, 0), "v": (2, -1), "w": (2, 1)}
FAMILIES = {
    f"chebyshev_polynomial_{kind}": Family(slope, offset, lambda k: (2, 0, 1, 1))
    for kind, (slope, offset) in CHEBYSHEV.items()
}
FAMILIES |= {
    f"shifted_chebyshev_polynomial_{kind}": Family(
        2 * slope, offset - slope, lambda k: (4, -2, 1, 1)
    )
    for kind, (slope, offset) in CHEBYSHEV.items()
}
FAMILIES |= {
    "hermite_polynomial_h": Family(2, 0, lambda k: (2, 0, 2 * k, 1)),
    "hermite_polynomial_he": Family(1, 0, lambda k: (1, 0, k, 1)),
    "laguerre_polynomial_l": Family(-1, 1, lambda k: (-1, 2 * k + 1, k, k + 1)),
    "legendre_polynomial_p": Family(1, 0, lambda k: (2 * k + 1, 0, k, k + 1)),
}


@torch_op(*[f"special_{name}" for name in FAMILIES])
def orthogonal_polynomial(node: FxNode) -> Expr:
    dtype, degree = node.out_dtype(), node.arg("n")
    if isinstance(degree, Expr) or not 0 <= (degree := int(degree)) <= MAX_DEGREE:
        node.fail(
            f"n: expected a constant degree from 0 to {MAX_DEGREE}, found {degree}",
            "pass the degree as a Python integer",
        )
    x = node.operand("x", dtype)
    if not is_float(dtype):
        node.fail(f"x: expected floats, found {dtype}", "convert the operand: `x.float()`")
    family = FAMILIES[node.spec.target.split(".")[1].removeprefix("special_")]
    before: Expr = node.emit(R.full_like(x, number(1, dtype)))
    value: Expr = _linear(node, x, family.slope, family.offset) if degree else before
    for k in range(1, degree):
        a, b, c, d = family.coefficients(k)
        product = R.multiply(_linear(node, x, a, b), value)
        difference = R.subtract(product, R.multiply(before, number(c, dtype)))
        before, value = value, node.emit(R.divide(difference, number(d, dtype)))
    return value


def _linear(node: FxNode, x: Expr, slope: float, offset: float) -> Expr:
    dtype = node.dtype_of(x)
    return node.emit(R.add(R.multiply(x, number(slope, dtype)), number(offset, dtype)))

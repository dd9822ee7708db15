"""Activation functions."""

from __future__ import annotations

import math

from structir.ir.expr import Call, Expr
from structir.opdef.adjoint_op import Cotangent, Emit
from structir.opdef.attributes import Axis
from structir.opdef.define import op
from structir.opdef.examples import f32
from structir.ops.broadcast import greater, where
from structir.ops.create import zeros_like
from structir.projections import scalar_expr
from structir.projections.scalar_expr import ScalarExpr, select

SAME = "x[*s] -> y[*s]"
FLOATING = "x[*s] @ F -> y[*s] @ F"
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


@op(SAME, name="nn.relu")
def relu(x: ScalarExpr) -> ScalarExpr:
    """Computes max(x, 0), whose derivative at 0 is 0."""
    return scalar_expr.max(0, x)


@relu.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Passes the cotangent where the result is above 0. At 0, where halves of it would be the
    derivative of a maximum, there is none: as in PyTorch and JAX."""
    return [where(greater(result, zeros_like(result)), cotangent, zeros_like(cotangent))]


@op(SAME, name="nn.relu6")
def relu6(x: ScalarExpr) -> ScalarExpr:
    """Computes min(max(x, 0), 6)."""
    return scalar_expr.min(6, scalar_expr.max(0, x))


@op(FLOATING, name="nn.silu")
def silu(x: ScalarExpr) -> ScalarExpr:
    """Computes x * sigmoid(x)."""
    return x * scalar_expr.sigmoid(x)


@op(FLOATING, name="nn.gelu")
def gelu(x: ScalarExpr) -> ScalarExpr:
    """Computes x times the normal cumulative distribution function of x."""
    return 0.5 * x * (1 + scalar_expr.erf(x * math.sqrt(0.5)))


@op(FLOATING, name="nn.gelu_tanh")
def gelu_tanh(x: ScalarExpr) -> ScalarExpr:
    """Computes the tanh approximation of `gelu`."""
    return 0.5 * x * (1 + scalar_expr.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


@op(FLOATING, name="nn.selu")
def selu(x: ScalarExpr) -> ScalarExpr:
    """Computes the scaled exponential linear unit."""
    return SELU_SCALE * select(x > 0, x, SELU_ALPHA * scalar_expr.expm1(x))


@op(FLOATING, name="nn.leakyrelu")
def leakyrelu(x: ScalarExpr, alpha: float = 0.01) -> ScalarExpr:
    """Computes x where it is not negative, and `alpha * x` elsewhere."""
    return select(x > 0, x, alpha * x)


@op(FLOATING, name="nn.softplus")
def softplus(x: ScalarExpr, beta: float = 1.0, threshold: float = 20.0) -> ScalarExpr:
    """Computes log(1 + exp(beta * x)) / beta, and x where beta * x is above `threshold`."""
    correction = scalar_expr.log1p(scalar_expr.exp(-scalar_expr.abs(beta * x)))
    return select(x * beta > threshold, x, (scalar_expr.max(beta * x, 0) + correction) / beta)


@op("x[*p, i, *t] @ F, alpha[~i : i] @ F -> y[*p, i, *t] @ F", name="nn.prelu", at={"i": "axis"})
def prelu(x: ScalarExpr, alpha: ScalarExpr, axis: Axis = 1) -> ScalarExpr:
    """Computes x where it is not negative, else `alpha * x` with one alpha per channel."""
    return select(x > 0, x, alpha * x)


gelu.example(f32[3, 7])
softplus.example(f32[3, 7], beta=2.0)
prelu.example(f32[2, 3, 4], f32[3])

"""Mappings of element-wise ops of one operand, including activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import structir.frontend.special_functions as functions
from structir.frontend.scalars import number
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import direct, torch_op
from structir.frontend.torch.scalars import cast, rounded_once
from structir.ir.dtype import is_float
from structir.ir.expr import Expr
from structir.script import R

SAME_NAMES = """
abs acos acosh asin asinh atan atanh bitwise_not cos cosh erf erfc erfinv exp exp2 expm1 lgamma
log log1p negative rsqrt sigmoid sign sin sinh sqrt square tan tanh
"""
direct({name: getattr(R, name) for name in SAME_NAMES.split()})
# torch decomposes `arccos`, but not `arccos_`
ALIASES = ("acos", "acosh", "asin", "asinh", "atan", "atanh")
direct({f"arc{name[1:]}": getattr(R, name) for name in ALIASES} | {"absolute": R.abs})
direct(
    {
        "neg": R.negative,
        "relu": R.nn.relu,
        "selu": R.nn.selu,
        "sgn": R.sign,
        "silu": R.nn.silu,
        "special_erfc": R.erfc,
        "special_erfinv": R.erfinv,
        "special_exp2": R.exp2,
        "special_expm1": R.expm1,
        "special_gammaln": R.lgamma,
        "special_log1p": R.log1p,
    }
)


def _of_floats(op: Any) -> Callable[[FxNode], Any]:
    """Returns the mapping of a rounding op; integers are unchanged."""
    return lambda node: op(node["self"]) if is_float(node.dtype()) else node["self"]


for _name, _op in {"ceil": R.ceil, "floor": R.floor, "trunc": R.trunc, "fix": R.trunc}.items():
    torch_op(_name)(_of_floats(_op))


def _predicate(op: Any, integer_value: bool) -> Callable[[FxNode], Expr]:
    """Returns the mapping of an elementwise predicate that is constant for integers."""

    def build(node: FxNode) -> Expr:
        if is_float(node.dtype()):
            return op(node["self"])
        return R.full_like(node["self"], number(integer_value, "bool"), dtype="bool")

    return build


torch_op("isnan")(_predicate(R.isnan, False))
torch_op("isinf")(_predicate(R.isinf, False))
torch_op("isfinite")(_predicate(R.isfinite, True))


torch_op("logical_not")(lambda node: R.logical_not(node.operand("self", "bool")))


@torch_op("round")
@rounded_once
def round_decimals(node: FxNode) -> Expr:
    decimals = node.plain("decimals", 0)
    if not is_float(node.dtype()):
        return node["self"]
    if decimals == 0:
        return R.round(node["self"])
    factor = like(node, 10.0 ** abs(decimals))
    scale, unscale = (R.multiply, R.divide) if decimals > 0 else (R.divide, R.multiply)
    return unscale(R.round(scale(node["self"], factor)), factor)


def like(node: FxNode, value: Any) -> Expr:
    """Returns a number in the dtype of the result."""
    return number(value, node.out_dtype())


def operand_of(node: FxNode) -> Expr:
    """Returns the operand in the dtype of the result."""
    return node.operand("self", node.out_dtype())


def _logarithm(base: float) -> Callable[[FxNode], Expr]:
    return rounded_once(
        lambda node: R.multiply(R.log(operand_of(node)), like(node, 1 / math.log(base)))
    )


torch_op("log2")(_logarithm(2.0))
torch_op("log10")(_logarithm(10.0))


torch_op("reciprocal")(lambda node: R.divide(like(node, 1.0), operand_of(node)))


@torch_op("logit")
def logit(node: FxNode) -> Expr:
    x, epsilon = operand_of(node), node.arg("eps", None)
    if epsilon is not None:
        low, high = like(node, float(epsilon)), like(node, 1.0 - float(epsilon))
        x = node.emit(x)  # for an epsilon above 1/2, the lower bound has precedence
        x = R.where(R.less(x, low), low, R.where(R.greater(x, high), high, x))
    x = node.emit(x)
    return R.log(R.divide(x, R.subtract(like(node, 1.0), x)))


torch_op("frac")(lambda node: R.subtract(node["self"], R.trunc(node["self"])))


@torch_op("frexp")
def mantissa_and_exponent(node: FxNode) -> list[Expr]:
    """Builds x = mantissa * 2**exponent with 0.5 <= |mantissa| < 1; 0 and non-finite numbers are
    their own mantissa."""
    dtype = node.dtype()
    x = node.emit(cast(node["self"], "float64"))
    half, one, two = (number(value, "float64") for value in (0.5, 1.0, 2.0))
    is_regular = R.logical_and(R.isfinite(x), R.not_equal(x, number(0.0, "float64")))
    magnitude = node.emit(R.where(node.emit(is_regular), R.abs(x), half))
    base = number(math.log(2.0), "float64")
    exponent = node.emit(R.add(R.floor(R.divide(R.log(magnitude), base)), one))
    scaled = node.emit(R.divide(magnitude, R.power(two, exponent)))
    step = R.subtract(
        cast(R.greater_equal(scaled, one), "float64"), cast(R.less(scaled, half), "float64")
    )  # of a rounded logarithm
    step = node.emit(step)
    mantissa = R.multiply(R.divide(scaled, R.power(two, step)), R.sign(x))
    mantissa = R.where(is_regular, mantissa, x)
    return [cast(mantissa, dtype), cast(R.add(exponent, step), "int32")]


@torch_op("signbit")
def sign_bit(node: FxNode) -> Expr:
    if is_float(node.dtype()):
        return functions.is_negative(node["self"], node.dtype(), node.emit)
    return R.less(node["self"], number(0, node.dtype()))


@torch_op("special_ndtr", "ndtr")
@rounded_once
def normal_distribution(node: FxNode) -> Expr:
    """Builds erfc(-x / sqrt(2)) / 2, which has all digits also for x < 0."""
    x = R.multiply(operand_of(node), like(node, -math.sqrt(0.5)))
    return R.multiply(R.erfc(x), like(node, 0.5))


def _scaled_by(factor: float) -> Callable[[FxNode], Expr]:
    return rounded_once(lambda node: R.multiply(operand_of(node), like(node, factor)))


torch_op("deg2rad")(_scaled_by(math.pi / 180))
torch_op("rad2deg")(_scaled_by(180 / math.pi))


@torch_op("nan_to_num")
def no_nan(node: FxNode) -> Expr:
    x = node["self"]
    dtype = node.dtype()
    if not is_float(dtype):
        return x
    largest = float(_largest(dtype))
    values = [node.arg(n, None) for n in ("nan", "posinf", "neginf")]
    nan, high, low = [
        number(d if v is None else v, dtype)
        for v, d in zip(values, (0.0, largest, -largest), strict=True)
    ]
    finite = R.where(R.isnan(x), nan, x)
    infinite = R.where(R.greater(x, number(0.0, dtype)), high, low)
    return R.where(R.isinf(x), infinite, finite)


def _largest(dtype: str) -> Any:
    return {"float16": 65504.0, "bfloat16": 3.3895314e38, "float32": 3.4028235e38}.get(
        dtype, 1.7976931348623157e308
    )


# ---- activations


@torch_op("gelu")
def gelu(node: FxNode) -> Expr:
    tanh = node.arg("approximate", "none") == "tanh"
    return (R.nn.gelu_tanh if tanh else R.nn.gelu)(node["self"])


torch_op("relu6")(lambda node: R.nn.relu6(node["self"]))


@torch_op("leaky_relu")
def leaky_relu(node: FxNode) -> Expr:
    return R.nn.leakyrelu(node["self"], alpha=float(node.arg("negative_slope", 0.01)))


@torch_op("rrelu_with_noise_functional", "rrelu_with_noise", "rrelu")
def randomized_leaky_relu(node: FxNode) -> Any:
    """Builds the leaky relu of the mean slope; the noise of the evaluation mode is unused."""
    if node.flag("training"):
        node.fail(
            "training: expected False, found True", "export in evaluation mode: `model.eval()`"
        )
    slope = (float(node.arg("lower", 1 / 8)) + float(node.arg("upper", 1 / 3))) / 2
    result = R.nn.leakyrelu(node["self"], alpha=slope)
    return [result, node["noise"]] if "functional" in node.spec.target else result


@torch_op("prelu", "_prelu_kernel")
def p_relu(node: FxNode) -> Expr:
    weight = node["weight"]
    sizes = node.dims("weight")
    rank = node.rank()
    if len(sizes) == 1 and rank > 2:
        weight = R.reshape(weight, (sizes[0], *[1] * (rank - 2)))
    x = node["self"]
    return R.where(R.greater(x, like(node, 0)), x, R.multiply(x, weight))


@torch_op("elu", "celu")
@rounded_once
def elu(node: FxNode) -> Expr:
    celu = ".celu" in node.spec.target
    alpha = float(node.arg("alpha", 1.0))
    scale = 1.0 if celu else float(node.arg("scale", 1.0))
    inner = 1.0 / alpha if celu else float(node.arg("input_scale", 1.0))
    x = node["self"]
    negative = R.expm1(x if inner == 1.0 else R.multiply(x, like(node, inner)))
    negative = R.multiply(negative, like(node, alpha * scale))
    positive = x if scale == 1.0 else R.multiply(x, like(node, scale))
    return R.where(R.greater(x, like(node, 0.0)), positive, negative)


@torch_op("softplus")
def softplus(node: FxNode) -> Expr:
    beta, threshold = float(node.arg("beta", 1)), float(node.arg("threshold", 20))
    return R.nn.softplus(node["self"], beta=beta, threshold=threshold)


@torch_op("softsign")
def softsign(node: FxNode) -> Expr:
    x = node["self"]
    return R.divide(x, R.add(like(node, 1.0), R.abs(x)))


@torch_op("log_sigmoid", "logsigmoid")
def log_sigmoid(node: FxNode) -> Expr:
    x = node["self"]
    return R.negative(R.log_add_exp(R.negative(x), like(node, 0.0)))


@torch_op("mish")
@rounded_once
def mish(node: FxNode) -> Expr:
    x = node["self"]
    return R.multiply(x, R.tanh(R.log_add_exp(x, like(node, 0.0))))


@torch_op("hardtanh")
def hard_tanh(node: FxNode) -> Expr:
    low, high = node.arg("min_val", -1), node.arg("max_val", 1)
    return R.minimum(R.maximum(node["self"], like(node, low)), like(node, high))


def _hard_sigmoid(node: FxNode) -> Expr:
    linear = R.add(R.multiply(node["self"], like(node, 1 / 6)), like(node, 0.5))
    return R.clip(linear, 0.0, 1.0)


torch_op("hardsigmoid")(rounded_once(_hard_sigmoid))
torch_op("hardswish")(rounded_once(lambda node: R.multiply(node["self"], _hard_sigmoid(node))))


@torch_op("threshold")
def threshold(node: FxNode) -> Expr:
    limit = like(node, node.arg("threshold"))
    return R.where(R.less_equal(node["self"], limit), like(node, node.arg("value")), node["self"])


@torch_op("hardshrink")
def hard_shrink(node: FxNode) -> Expr:
    limit, x = node.arg("lambd", 0.5), node["self"]
    return R.where(R.less_equal(R.abs(x), like(node, limit)), like(node, 0), x)


@torch_op("softshrink")
def soft_shrink(node: FxNode) -> Expr:
    limit, x = node.arg("lambd", 0.5), node["self"]
    is_small = R.less_equal(R.abs(x), like(node, limit))
    distance = R.where(R.less(x, like(node, 0)), like(node, -limit), like(node, limit))
    return R.where(is_small, like(node, 0), R.subtract(x, distance))


@torch_op("glu")
@rounded_once
def glu(node: FxNode) -> Expr:
    axis = node.axis("dim", -1)
    half = node.out_dims()[axis]
    first = R.strided_slice(node["self"], [axis], (0,), (half,))
    gate = R.strided_slice(node["self"], [axis], (half,), (2 * half,))
    return R.multiply(first, R.sigmoid(gate))

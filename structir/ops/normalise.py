"""Normalizations: softmax, and layer, group, instance and batch normalization."""

from __future__ import annotations

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.expr import Call, Expr, Tuple
from structir.opdef.adjoint_op import Cotangent, Emit
from structir.opdef.attributes import Axes, Axis, Ints
from structir.opdef.call_view import CallView, ResolvedSignature
from structir.opdef.define import op
from structir.opdef.examples import f32
from structir.opdef.index_vars import access_text, index_vars
from structir.ops.broadcast import divide, multiply, subtract
from structir.ops.elementwise import exp, log, rsqrt, square
from structir.ops.layout import expand_dims, permute_dims
from structir.ops.reduce import as_exact, as_operand_dtype, max_, mean, sum_, variance
from structir.ops.reshape import reshape

ALONG = "x[*p, [i], *t] @ F -> y[*p, i, *t] @ F"


@op(ALONG, name="nn.softmax", at={"i": "axis"}, parts=True)
def softmax(x: Expr, axis: Axis = -1) -> Expr:
    """Computes exp(x) divided by its sum along an axis."""
    powers = exp(subtract(x, max_(x, axis=axis, keepdims=True)))
    return divide(powers, sum_(powers, axis=axis, keepdims=True))


@softmax.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Computes the adjoint: result * (cotangent - sum(cotangent * result))."""
    weighted = multiply(cotangent, result)
    total = sum_(weighted, axis=call.attrs.get("axis", -1), keepdims=True)
    return [subtract(weighted, multiply(result, total))]


@op(ALONG, name="nn.log_softmax", at={"i": "axis"}, parts=True)
def log_softmax(x: Expr, axis: Axis = -1) -> Expr:
    """Computes the logarithm of softmax."""
    shifted = subtract(x, max_(x, axis=axis, keepdims=True))
    return subtract(shifted, log(sum_(exp(shifted), axis=axis, keepdims=True)))


@log_softmax.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Computes the adjoint: cotangent - exp(result) * sum(cotangent)."""
    total = sum_(cotangent, axis=call.attrs.get("axis", -1), keepdims=True)
    return [subtract(cotangent, multiply(exp(result), total))]


def normalization_signature(call: CallView, weights: tuple[str, ...]) -> str:
    """Returns the signature in which the body receives the normalized axes whole."""
    rank = call.rank("data")
    if rank is None:
        others = ", ".join([f"{name}[*u] @ F" for name in weights])
        return f"data[*s] @ F, {others} -> y[*s] @ F"
    axes, variables = call.axes("axes", rank), index_vars(rank)
    read = [f"[{i}]" if k in axes else i for k, i in enumerate(variables)]
    weight_variables = [variables[k] for k in axes]
    others = ", ".join([f"{access_text(name, weight_variables)} @ F" for name in weights])
    return f"{access_text('data', read)} @ F, {others} -> {access_text('y', variables)} @ F"


def layer_norm_signature(call: CallView) -> str:
    """Returns the signature of layer_norm, with two weights."""
    return normalization_signature(call, ("gamma", "beta"))


def rms_norm_signature(call: CallView) -> str:
    """Returns the signature of rms_norm, with one weight."""
    return normalization_signature(call, ("weight",))


@op(layer_norm_signature, name="nn.layer_norm", parts=True)
def layer_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    axes: Axes,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Expr:
    """Normalizes to zero mean and unit variance over axes, then scales and shifts."""
    standard = _standardize(data, axes, epsilon)
    weight, shift = (_align_weight(operand, data, axes) for operand in (gamma, beta))
    return _scale_and_shift(standard, weight if scale else None, shift if center else None)


@op(rms_norm_signature, name="nn.rms_norm", parts=True)
def rms_norm(data: Expr, weight: Expr, axes: Axes, epsilon: float = 1e-5) -> Expr:
    """Divides by the root mean square over axes, then scales."""
    exact = as_exact(data)
    power = mean(square(exact), axis=axes, keepdims=True)
    standard = as_operand_dtype(multiply(exact, rsqrt(power + epsilon)), data)
    return multiply(standard, _align_weight(weight, data, axes))


def _standardize(data: Expr, axes: Axes, epsilon: float) -> Expr:
    exact = as_exact(data)
    distance = subtract(exact, mean(exact, axis=axes, keepdims=True))
    variance_ = mean(square(distance), axis=axes, keepdims=True)
    return as_operand_dtype(multiply(distance, rsqrt(variance_ + epsilon)), data)


def _scale_and_shift(value: Expr, weight: Expr | None, shift: Expr | None) -> Expr:
    value = value if weight is None else multiply(value, weight)
    return value if shift is None else value + shift


def _align_weight(weight: Expr, data: Expr, axes: Axes) -> Expr:
    """Reshapes a weight to broadcast against the data after its first axis.

    Where the rank is unknown, axes count from the end.
    """
    rank: int | None = data.struct_info.ndim
    listed = (axes,) if isinstance(axes, int) else axes
    if rank is None and any(a >= 0 for a in listed):
        message = f"axes: expected negative axes where the rank of data is unknown, found {axes}"
        hint = "count axes from the end: `axes=[-1]`"
        raise DiagnosticError(Diagnostic(message, data.span, hint=hint, code="E0307"))
    positions = list(listed) if rank is None else [a % rank for a in listed]
    in_order = sorted(positions)
    if not in_order:
        return weight
    if positions != in_order:
        weight = permute_dims(weight, tuple([positions.index(k) for k in in_order]))
    missing = [k for k in range(in_order[0], rank or 0) if k not in in_order]
    new_axes = tuple([k - in_order[0] for k in missing])
    return expand_dims(weight, axis=new_axes) if new_axes else weight


def group_norm_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature with channels as `flat(g, c)`; normalized axes are whole."""
    if call["num_groups"] < 1:
        call.reject(f"num_groups: expected at least 1, found {call['num_groups']}")
    return _channel_signature(call, "flat(g, c)", "g == num_groups")


def instance_norm_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature with each channel of each instance separate."""
    return _channel_signature(call, "c", "")


def _channel_signature(call: CallView, channel: str, condition: str) -> ResolvedSignature:
    rank = call.rank("data")
    if rank is None:
        return ResolvedSignature("data[*s] @ F, gamma[c] @ F, beta[c] @ F -> y[*s] @ F")
    channel_axis, axes = call.axis("channel_axis", rank), call.axes("axes", rank)
    if channel_axis in axes:
        call.reject("axes: expected axes other than channel_axis, found it among them")
    variables = index_vars(rank)
    in_axes = [f"[{i}]" if k in axes else i for k, i in enumerate(variables)]
    out_axes = list(variables)
    in_axes[channel_axis], out_axes[channel_axis] = channel, channel
    weights = f"gamma[{channel}] @ F, beta[{channel}] @ F"
    signature = f"{access_text('data', in_axes)} @ F, {weights} -> {access_text('y', out_axes)} @ F"
    return ResolvedSignature(signature, condition)


@op(group_norm_signature, name="nn.group_norm", parts=True)
def group_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    num_groups: int,
    channel_axis: Axis,
    axes: Ints,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Expr:
    """Normalizes each group of channels, then scales and shifts."""
    rank: int = data.struct_info.ndim
    sizes = data.struct_info.dims
    channel = channel_axis % rank
    split = (*sizes[:channel], num_groups, sizes[channel] // num_groups, *sizes[channel + 1 :])
    inner = tuple([k + 1 if k > channel else k for k in [a % rank for a in axes]])
    standard = data  # a reshape interprets a literal 0 as a copied size
    if 0 not in sizes:
        grouped_data = _standardize(reshape(data, split), (channel + 1, *inner), epsilon)
        standard = reshape(grouped_data, tuple(sizes))
    weight, shift = (_align_weight(operand, data, channel) for operand in (gamma, beta))
    return _scale_and_shift(standard, weight if scale else None, shift if center else None)


@op(instance_norm_signature, name="nn.instance_norm", parts=True)
def instance_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    channel_axis: Axis,
    axes: Ints,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Expr:
    """Normalizes each channel of each instance, then scales and shifts."""
    standard = _standardize(data, axes, epsilon)
    weight, shift = (_align_weight(operand, data, channel_axis) for operand in (gamma, beta))
    return _scale_and_shift(standard, weight if scale else None, shift if center else None)


@op(
    "data[*p, i, *t] @ F, gamma[i] @ F, beta[i] @ F, moving_mean[i] @ F, moving_var[i] @ F"
    " -> y[*p, i, *t] @ F, running_mean[i] @ F, running_var[i] @ F",
    name="nn.batch_norm",
    at={"i": "axis"},
    parts=True,
)
def batch_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    moving_mean: Expr,
    moving_var: Expr,
    axis: Axis = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    momentum: float = 0.1,
    training: bool = True,
) -> Expr:
    """Normalizes each channel: by batch statistics in training, else by running statistics.

    In training, the running statistics move toward the batch statistics by `momentum`.
    """
    rank: int = data.struct_info.ndim
    channel = axis % rank
    others = tuple([k for k in range(rank) if k != channel])
    batch_mean, batch_variance = moving_mean, moving_var
    if training:
        batch_mean, batch_variance = mean(data, axis=others), variance(data, axis=others)
        moving_mean = moving_mean * (1.0 - momentum) + batch_mean * momentum
        moving_var = moving_var * (1.0 - momentum) + batch_variance * momentum
    distance = subtract(data, _align_weight(batch_mean, data, channel))
    value: Expr = multiply(distance, _align_weight(rsqrt(batch_variance + epsilon), data, channel))
    weight, shift = (_align_weight(operand, data, channel) for operand in (gamma, beta))
    value = _scale_and_shift(value, weight if scale else None, shift if center else None)
    return Tuple((value, moving_mean, moving_var))


@batch_norm.region
def _(call: Call) -> bool:
    """Returns whether the signature states all reads: training reads the whole batch."""
    return call.attrs.get("training") is False


softmax.example(f32[2, 3, 4], axis=1)
log_softmax.example(f32[3, 7])
layer_norm.example(f32[2, 3, 4], f32[4], f32[4], axes=-1)
layer_norm.example(f32[2, 3, 4], f32[2, 4], f32[2, 4], axes=(0, 2))
rms_norm.example(f32[3, 7], f32[7], axes=-1)
rms_norm.example(f32[2, 3, 4], f32[4, 2], axes=(2, 0))
group_norm.example(f32[2, 6, 3, 2], f32[6], f32[6], num_groups=3, channel_axis=1, axes=(2, 3))
instance_norm.example(f32[2, 3, 4], f32[3], f32[3], channel_axis=1, axes=(2,))
batch_norm.example(f32[4, 3, 2], f32[3], f32[3], f32[3], f32[3], axis=1)

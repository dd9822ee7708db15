"""Ops of torch with operands, in groups: each group is exported as one program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Case = tuple[str, Callable[..., Any], tuple[Any, ...]]
GROUPS: dict[str, list[Case]] = {}
torch.manual_seed(0)  # for the operands of this module


def normal(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(sizes).to(dtype)


def positive(*sizes: int) -> Tensor:
    return torch.rand(*sizes) + 0.1


def whole(*sizes: int, low: int = -5, high: int = 6, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.randint(low, high, sizes).to(dtype)


def flags(*sizes: int) -> Tensor:
    return torch.rand(*sizes) > 0.5


def listed(made: Any) -> Any:
    """Replaces named tuples by plain ones: torch cannot serialize named ones."""
    return tuple(made) if isinstance(made, tuple) else made


def words(text: str) -> list[str]:
    return text.split()


def add(group: str, name: str, act: Callable[..., Any], *operands: Any) -> None:
    GROUPS.setdefault(group, []).append((name, act, operands))


# ---- element-wise

for name in [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "frac",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log10",
    "log1p",
    "log2",
    "neg",
    "reciprocal",
    "relu",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sgn",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
    "deg2rad",
    "rad2deg",
    "nan_to_num",
    "positive",
]:
    act = getattr(torch, name)
    inside = {"acos", "asin", "atanh"}
    operand = (
        positive(2, 5) + 1 if name == "acosh" else positive(2, 5) * (0.8 if name in inside else 1.5)
    )
    if name in ("abs", "ceil", "floor", "frac", "round", "trunc", "neg", "sign", "sgn", "tanh"):
        operand = normal(2, 5) * 3
    add("unary", name, act, operand)
for name in [
    "abs",
    "exp",
    "sin",
    "sqrt",
    "sigmoid",
    "neg",
    "sign",
    "square",
    "isnan",
    "ceil",
    "round",
    "relu",
]:
    add("unary_of_integers", name, getattr(torch, name), whole(2, 3).abs())
add("unary_of_integers", "bitwise_not", torch.bitwise_not, whole(2, 3))
add("unary_of_integers", "logical_not", torch.logical_not, whole(2, 3))
add("unary", "round_2", lambda x: torch.round(x, decimals=2), normal(4))
add("unary", "logit", lambda x: torch.logit(x, eps=1e-6), torch.rand(5))

ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "relu6": F.relu6,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "elu": F.elu,
    "celu": lambda x: F.celu(x, 1.5),
    "selu": F.selu,
    "softplus": F.softplus,
    "softsign": F.softsign,
    "logsigmoid": F.logsigmoid,
    "mish": F.mish,
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.7),
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "threshold": lambda x: F.threshold(x, 0.1, 20.0),
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "tanhshrink": F.tanhshrink,
    "glu": lambda x: F.glu(x, -1),
    "dropout": lambda x: F.dropout(x, 0.5, training=False),
    "softmax": lambda x: F.softmax(x, -1),
    "softmax_0": lambda x: F.softmax(x, 0),
    "log_softmax": lambda x: F.log_softmax(x, 1),
    "softmin": lambda x: F.softmin(x, 1),
    "normalize": lambda x: F.normalize(x, dim=1),
}
for name, act in ACTIVATIONS.items():
    add("activations", name, act, normal(3, 6) * 2)
add("activations", "prelu", F.prelu, normal(2, 3, 4), torch.rand(3))
add("activations", "prelu_one", F.prelu, normal(2, 3), torch.rand(1))

# ---- several operands

for name in [
    "add",
    "sub",
    "mul",
    "div",
    "maximum",
    "minimum",
    "atan2",
    "fmod",
    "remainder",
    "floor_divide",
    "hypot",
]:
    add("binary", name, getattr(torch, name), normal(3, 4) * 5, positive(4) * 2)
for name in words("""eq ne lt le gt ge logical_and logical_or logical_xor"""):
    add("binary", name, getattr(torch, name), whole(3, 4), whole(3, 1))
for name in [
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_left_shift",
    "bitwise_right_shift",
]:
    add("binary", name, getattr(torch, name), whole(3, 4), whole(4, low=0, high=4))
for name in words("""add sub mul floor_divide remainder fmod"""):
    act = getattr(torch, name)
    add("binary", f"{name}_integers", getattr(torch, name), whole(3, 4), whole(4, low=1))
    add("binary", f"{name}_number", lambda x, f=act: f(x, 3), whole(3, 4))
for rounding in (None, "floor", "trunc"):
    add(
        "binary",
        f"div_{rounding}",
        lambda x, y, r=rounding: torch.div(x, y, rounding_mode=r),
        normal(3, 4) * 4,
        positive(4),
    )
    add(
        "binary",
        f"div_{rounding}_integers",
        lambda x, r=rounding: torch.div(x, 3, rounding_mode=r),
        whole(3, 4),
    )
for name in words("""fmin fmax copysign xlogy logaddexp"""):
    add("binary", name, getattr(torch, name), positive(3, 4), normal(4).abs() - 0.0)
add("binary", "add_alpha", lambda x, y: torch.add(x, y, alpha=2.5), normal(3), normal(3))
add("binary", "sub_alpha", lambda x, y: torch.sub(x, y, alpha=2), whole(3), whole(3))
add("binary", "rsub", lambda x: 3 - x, normal(3))
add("binary", "rdiv", lambda x: 3 / x, positive(3))
add("binary", "pow", torch.pow, positive(3, 4), normal(4))
for exponent in (0.5, -0.5, -1, 1, 2, 3, 4, 2.5, 5):
    add("binary", f"pow_{exponent}", lambda x, e=exponent: x**e, positive(4))
add("binary", "pow_integers", lambda x: x**3, whole(4))
add("binary", "number_pow", lambda x: 2.0**x, normal(4))
add(
    "binary",
    "addcmul",
    lambda x, y, z: torch.addcmul(x, y, z, value=0.5),
    normal(3),
    normal(3),
    normal(3),
)
add(
    "binary",
    "addcdiv",
    lambda x, y, z: torch.addcdiv(x, y, z, value=2),
    normal(3),
    normal(3),
    positive(3),
)
add("binary", "lerp", torch.lerp, normal(3), normal(3), torch.rand(3))
add("binary", "lerp_number", lambda x, y: torch.lerp(x, y, 0.3), normal(3), normal(3))
add("binary", "where", torch.where, flags(3, 1), normal(3, 4), normal(4))
add("binary", "where_numbers", lambda c: torch.where(c, 1.0, 0.0), flags(3, 2))
add("binary", "clamp", lambda x: x.clamp(-0.5, 0.5), normal(6))
add("binary", "clamp_integers", lambda x: x.clamp(min=-1), whole(6))
add("binary", "clamp_tensors", lambda x, y: torch.clamp(x, max=y), normal(3, 4), normal(4))
add("binary", "clamp_min", lambda x: torch.clamp_min(x, 0.1), normal(5))
add(
    "binary", "masked_fill", lambda x, m: x.masked_fill(m, float("-inf")), normal(3, 4), flags(3, 1)
)
add("binary", "isclose", torch.isclose, normal(4), normal(4))
add("binary", "mse_loss", F.mse_loss, normal(3, 4), normal(3, 4))
add("binary", "l1_loss", lambda x, y: F.l1_loss(x, y, reduction="none"), normal(3, 4), normal(3, 4))

# ---- promotion

DTYPES = (torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool)
for left in DTYPES:
    for right in (torch.float32, torch.int32, torch.bool):
        x, y = whole(3, low=0, high=3).to(left), whole(3, low=0, high=3).to(right)
        names = f"{left}_{right}".replace("torch.", "")
        add("promotion", f"add_{names}", torch.add, x, y)
        add("promotion", f"mul_{names}", torch.mul, x, y)
        add("promotion", f"lt_{names}", torch.lt, x, y)
    add("promotion", f"half_{left}", lambda x: x * 0.5, x)
    add("promotion", f"more_{left}", lambda x: x + 1, x)
    add("promotion", f"equals_{left}", lambda x: x == 1.5, x)
    add("promotion", f"scalar_{left}", lambda x, y: x + y, x, torch.tensor(2.5))
    add("promotion", f"to_{left}", lambda x, t=left: x.to(t), normal(4).abs() * 3)
    add("promotion", f"sum_{left}", lambda x: x.sum(), x)
    add("promotion", f"cumsum_{left}", lambda x: x.cumsum(0), x)
    add("promotion", f"div_{left}", lambda x: x / 2, x)

# ---- reductions

for name in [
    "sum",
    "prod",
    "mean",
    "amax",
    "amin",
    "var",
    "std",
    "any",
    "all",
    "max",
    "min",
    "logsumexp",
    "argmax",
    "argmin",
]:
    act = getattr(torch, name)
    operand = flags(3, 4, 2) if name in ("any", "all") else normal(3, 4, 2)
    if name not in ("logsumexp", "amax", "amin"):
        add("reductions", name, act, operand)
    add("reductions", f"{name}_1", lambda x, f=act: listed(f(x, 1)), operand)
    add("reductions", f"{name}_keep", lambda x, f=act: listed(f(x, -1, keepdim=True)), operand)
for name in words("""sum mean amax amin var std logsumexp"""):
    act = getattr(torch, name)
    add(
        "reductions",
        f"{name}_axes",
        lambda x, f=act: f(x, (0, -1)),
        normal(3, 4, 2),
    )
add("reductions", "var_biased", lambda x: x.var(1, unbiased=False), normal(3, 4))
add("reductions", "var_correction", lambda x: torch.var(x, 1, correction=2), normal(3, 4))
add("reductions", "var_mean", lambda x: torch.var_mean(x, 1), normal(3, 4))
add("reductions", "std_mean", lambda x: torch.std_mean(x, 1), normal(3, 4))
add("reductions", "sum_dtype", lambda x: x.sum(0, dtype=torch.float64), normal(3, 4))
add("reductions", "sum_of_flags", lambda x: x.sum(0), flags(3, 4))
add("reductions", "nansum", lambda x: torch.nansum(x, 1), normal(3, 4))
add("reductions", "aminmax", lambda x: tuple(torch.aminmax(x, dim=1)), normal(3, 4))
for order in (1, 2, 3, float("inf"), 0):
    add(
        "reductions",
        f"norm_{order}",
        lambda x, p=order: torch.linalg.vector_norm(x, p, dim=1),
        normal(3, 4),
    )
add("reductions", "norm", lambda x: x.norm(), normal(3, 4))
add("reductions", "norm_axis", lambda x: x.norm(dim=1, keepdim=True), normal(3, 4))
add("reductions", "cumsum", lambda x: x.cumsum(1), normal(3, 4))
add("reductions", "cumprod", lambda x: x.cumprod(0), normal(3, 4))
add("reductions", "diff", lambda x: torch.diff(x, dim=1), normal(3, 4))
add("reductions", "count_nonzero", lambda x: torch.count_nonzero(x), whole(3, 4))
for down in (False, True):
    add(
        "order",
        f"sort_{down}",
        lambda x, d=down: tuple(torch.sort(x, 1, descending=d)),
        normal(3, 5),
    )
    add(
        "order",
        f"argsort_{down}",
        lambda x, d=down: torch.argsort(x, 0, descending=d),
        normal(3, 5),
    )
    add("order", f"topk_{down}", lambda x, d=down: tuple(torch.topk(x, 3, largest=d)), normal(3, 5))
add("order", "kthvalue", lambda x: tuple(torch.kthvalue(x, 2, dim=1)), normal(3, 5))
add("order", "median", torch.median, normal(3, 5))
add("order", "median_axis", lambda x: tuple(torch.median(x, 1)), normal(3, 4))
add("order", "bucketize", torch.bucketize, normal(6), torch.tensor([-1.0, 0.0, 0.5]))
add(
    "order",
    "searchsorted",
    lambda e, x: torch.searchsorted(e, x, right=True),
    torch.tensor([-1.0, 0.0, 0.5]),
    normal(2, 3),
)

# ---- shapes

SHAPES: dict[str, Callable[[Tensor], Any]] = {
    "view": lambda x: x.view(2, 12),
    "reshape": lambda x: x.reshape(-1, 6),
    "flatten": lambda x: x.flatten(1),
    "unflatten": lambda x: x.unflatten(2, (2, 2)),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "squeeze": lambda x: x.unsqueeze(1).squeeze(),
    "squeeze_1": lambda x: x.unsqueeze(1).squeeze(1),
    "squeeze_none": lambda x: x.squeeze(1),
    "permute": lambda x: x.permute(2, 0, 1),
    "transpose": lambda x: x.transpose(0, -1),
    "t": lambda x: x[0].t(),
    "mT": lambda x: x.mT,
    "movedim": lambda x: x.movedim(0, 2),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "expand": lambda x: x.unsqueeze(0).expand(5, -1, -1, -1),
    "expand_as": lambda x: x[:, :1].expand_as(x),
    "repeat": lambda x: x.repeat(2, 1, 2, 1),
    "tile": lambda x: x.tile(2),
    "repeat_interleave": lambda x: x.repeat_interleave(2, dim=1),
    "slice": lambda x: x[:, 1:3],
    "slice_negative": lambda x: x[..., -3:-1],
    "slice_step": lambda x: x[:, ::2, 1::2],
    "select": lambda x: x[:, 1],
    "select_negative": lambda x: x[..., -1],
    "narrow": lambda x: x.narrow(1, 1, 2),
    "unbind": lambda x: x.unbind(1),
    "split": lambda x: x.split(2, dim=1),
    "split_sizes": lambda x: x.split([1, 2], dim=1),
    "chunk": lambda x: x.chunk(2, dim=2),
    "tensor_split": lambda x: x.tensor_split(2, dim=1),
    "diagonal": lambda x: x.diagonal(dim1=1, dim2=2),
    "diagonal_offset": lambda x: x.diagonal(1, 0, 2),
    "unfold": lambda x: x.unfold(2, 2, 1),
    "cat": lambda x: torch.cat([x, x * 2], 1),
    "cat_dtypes": lambda x: torch.cat([x, torch.ones(2, 1, 4, dtype=torch.int64)], 1),
    "stack": lambda x: torch.stack([x, x], -1),
    "hstack": lambda x: torch.hstack([x, x]),
    "vstack": lambda x: torch.vstack([x[0, 0], x[0, 1]]),
    "flip": lambda x: x.flip(0, 2),
    "roll": lambda x: x.roll(1, 2),
    "roll_flat": lambda x: x.roll(3),
    "rot90": lambda x: x.rot90(1, (1, 2)),
    "tril": torch.tril,
    "triu": lambda x: torch.triu(x, 1),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.reshape(1, 4, 2, 3), 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x.reshape(1, 1, 4, 6), 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x.reshape(1, 6, 2, 2), 3),
    "atleast": lambda x: torch.atleast_3d(x[0]),
    "clone": lambda x: x.clone(),
    "contiguous": lambda x: x.transpose(0, 1).contiguous(),
    "meshgrid": lambda x: torch.meshgrid(x[0, 0], x[0, 1], indexing="ij"),
    "meshgrid_xy": lambda x: torch.meshgrid(x[0, 0], x[0, 1, :2], indexing="xy"),
    "broadcast_to": lambda x: x[:, :1].broadcast_to(2, 3, 4),
    "pad": lambda x: F.pad(x, (1, 2, 0, 1)),
    "pad_value": lambda x: F.pad(x, (1, -1), value=2.0),
    "pad_reflect": lambda x: F.pad(x, (1, 2), mode="reflect"),
    "pad_replicate": lambda x: F.pad(x, (1, 2), mode="replicate"),
    "pad_circular": lambda x: F.pad(x, (1, 2), mode="circular"),
}
for name, act in SHAPES.items():
    add("shapes", name, act, normal(2, 3, 4))

CREATED: dict[str, Callable[[Tensor], Any]] = {
    "zeros_like": torch.zeros_like,
    "ones_like": lambda x: torch.ones_like(x, dtype=torch.int32),
    "full_like": lambda x: torch.full_like(x, 2.5),
    "full": lambda x: torch.full((2, 3), 7) + x,
    "new_zeros": lambda x: x.new_zeros(2, 2),
    "new_ones": lambda x: x.new_ones(2),
    "arange": lambda x: torch.arange(x.shape[0]) + x[:, 0],
    "arange_step": lambda x: torch.arange(1, 8, 2),
    "arange_float": lambda x: torch.arange(0.0, 2.0, 0.3),
    "linspace": lambda x: torch.linspace(0, 1, 5),
    "eye": lambda x: torch.eye(3) + x[:, :3][:1],
    "tensor": lambda x: x + torch.tensor([1.0, 2.0, 3.0]),
    "one_hot": lambda x: F.one_hot(x.argmax(1), 3),
    "empty": lambda x: torch.empty_like(x).fill_(3.0),
    "diag_embed": lambda x: torch.diag_embed(x),
    "scalar_tensor": lambda x: x * torch.tensor(3),
}
for name, act in CREATED.items():
    add("created", name, act, normal(2, 3))

# ---- products

add("products", "mm", torch.mm, normal(3, 4), normal(4, 5))
add("products", "bmm", torch.bmm, normal(2, 3, 4), normal(2, 4, 5))
add("products", "matmul", torch.matmul, normal(2, 1, 3, 4), normal(5, 4, 2))
add("products", "matmul_vector", torch.matmul, normal(2, 3, 4), normal(4))
add("products", "mv", torch.mv, normal(3, 4), normal(4))
add("products", "dot", torch.dot, normal(4), normal(4))
add("products", "linear", F.linear, normal(2, 3, 4), normal(5, 4), normal(5))
add("products", "linear_bare", F.linear, normal(2, 4), normal(5, 4))
add(
    "products",
    "addmm",
    lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2),
    normal(5),
    normal(3, 4),
    normal(4, 5),
)
add("products", "baddbmm", torch.baddbmm, normal(2, 3, 5), normal(2, 3, 4), normal(2, 4, 5))
add("products", "outer", torch.outer, normal(3), normal(4))
add(
    "products",
    "einsum",
    lambda x, y: torch.einsum("bij,bkj->bik", x, y),
    normal(2, 3, 4),
    normal(2, 5, 4),
)
add(
    "products",
    "einsum_3",
    lambda x, y, z: torch.einsum("ij,jk,kl->il", x, y, z),
    normal(2, 3),
    normal(3, 4),
    normal(4, 2),
)
add(
    "products",
    "tensordot",
    lambda x, y: torch.tensordot(x, y, dims=([1, 2], [0, 1])),
    normal(2, 3, 4),
    normal(3, 4, 5),
)
add("products", "bilinear", F.bilinear, normal(3, 4), normal(3, 5), normal(2, 4, 5), normal(2))
add("products", "cosine_similarity", F.cosine_similarity, normal(3, 4), normal(3, 4))
add("products", "cdist", torch.cdist, normal(2, 3, 4), normal(2, 5, 4))
for causal in (False, True):
    add(
        "products",
        f"attention_{causal}",
        lambda q, k, v, c=causal: F.scaled_dot_product_attention(q, k, v, is_causal=c),
        normal(2, 2, 3, 4),
        normal(2, 2, 5, 4),
        normal(2, 2, 5, 6),
    )
add(
    "products",
    "attention_mask",
    lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
    normal(2, 3, 4),
    normal(2, 5, 4),
    normal(2, 5, 6),
    torch.tril(torch.ones(3, 5)).bool(),
)
add(
    "products",
    "attention_bias",
    lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m, scale=0.3),
    normal(2, 3, 4),
    normal(2, 5, 4),
    normal(2, 5, 6),
    normal(2, 3, 5),
)
add(
    "products",
    "attention_shared",
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
    normal(2, 4, 3, 4),
    normal(2, 2, 5, 4),
    normal(2, 2, 5, 6),
)

# ---- indices

add("indices", "embedding", F.embedding, whole(2, 3, low=0), normal(6, 4))
add(
    "indices",
    "index_select",
    lambda x, i: x.index_select(1, i),
    normal(3, 5),
    whole(4, low=0, high=5),
)
add("indices", "gather", lambda x, i: x.gather(1, i), normal(3, 5), whole(3, 2, low=0, high=5))
add("indices", "take", torch.take, normal(3, 5), whole(4, low=0, high=15))
add(
    "indices",
    "take_along_dim",
    lambda x, i: torch.take_along_dim(x, i, 1),
    normal(3, 5),
    whole(3, 2, low=0, high=5),
)
add("indices", "index", lambda x, i: x[i], normal(5, 3), whole(4, low=-5, high=5))
add("indices", "index_second", lambda x, i: x[:, i], normal(2, 5, 3), whole(2, 2, low=-5, high=5))
add(
    "indices",
    "index_two",
    lambda x, i, j: x[i, j],
    normal(4, 5, 3),
    whole(3, low=0, high=4),
    whole(2, 1, low=0, high=5),
)
add(
    "indices",
    "index_apart",
    lambda x, i, j: x[i, :, j],
    normal(4, 5, 3),
    whole(2, low=0, high=4),
    whole(2, low=0, high=3),
)
add(
    "indices",
    "index_adjacent",
    lambda x, i, j: x[:, i, j],
    normal(4, 5, 3),
    whole(2, low=0, high=5),
    whole(2, low=0, high=3),
)
add(
    "indices",
    "index_mask",
    lambda x, m: x[m],
    normal(4, 3),
    torch.tensor([True, False, True, True]),
)
add("indices", "index_mask_whole", lambda x, m: x[m], normal(4, 3), flags(4, 3))
add("indices", "masked_select", torch.masked_select, normal(3, 4), flags(3, 4))
add("indices", "masked_scatter", torch.masked_scatter, normal(3, 4), flags(3, 4), normal(3, 4))
add("indices", "nonzero", torch.nonzero, whole(3, 4, low=0, high=2))
add(
    "indices",
    "nonzero_tuple",
    lambda x: torch.nonzero(x, as_tuple=True),
    whole(3, 4, low=0, high=2),
)
add(
    "indices",
    "index_put",
    lambda x, i, v: x.index_put((i,), v),
    normal(5, 3),
    torch.tensor([0, 3]),
    normal(2, 3),
)
add(
    "indices",
    "index_put_add",
    lambda x, i, v: x.index_put((i,), v, accumulate=True),
    normal(5, 3),
    torch.tensor([0, 3, 0]),
    normal(3),
)
add(
    "indices",
    "index_put_two",
    lambda x, i, j, v: x.index_put((i, j), v),
    normal(4, 5),
    torch.tensor([0, 2]),
    torch.tensor([1, 4]),
    normal(2),
)
add(
    "indices",
    "index_put_second",
    lambda x, i, v: torch.ops.aten.index_put(x, [None, i], v),
    normal(3, 5),
    torch.tensor([0, 4]),
    normal(3, 2),
)
add(
    "indices",
    "scatter",
    lambda x, i, s: x.scatter(1, i, s),
    normal(3, 5),
    torch.tensor([[0, 1], [2, 3], [4, 0]]),
    normal(3, 2),
)
add(
    "indices",
    "scatter_value",
    lambda x, i: x.scatter(1, i, 2.5),
    normal(3, 5),
    whole(3, 2, low=0, high=5),
)
add(
    "indices",
    "scatter_add",
    lambda x, i, s: x.scatter_add(0, i, s),
    normal(3, 5),
    whole(2, 5, low=0, high=3),
    normal(2, 5),
)
for how in ("sum", "prod", "amax", "amin"):
    add(
        "indices",
        f"scatter_reduce_{how}",
        lambda x, i, s, h=how: x.scatter_reduce(0, i, s, h),
        normal(3, 5),
        whole(2, 5, low=0, high=3),
        normal(2, 5),
    )
add(
    "indices",
    "slice_scatter",
    lambda x, s: torch.slice_scatter(x, s, 1, 1, 3),
    normal(3, 5),
    normal(3, 2),
)
add(
    "indices",
    "select_scatter",
    lambda x, s: torch.select_scatter(x, s, 1, -1),
    normal(3, 5),
    normal(3),
)
add(
    "indices",
    "index_add",
    lambda x, i, s: x.index_add(1, i, s, alpha=2),
    normal(3, 5),
    torch.tensor([0, 2, 0]),
    normal(3, 3),
)
add(
    "indices",
    "index_copy",
    lambda x, i, s: x.index_copy(0, i, s),
    normal(3, 5),
    torch.tensor([2, 0]),
    normal(2, 5),
)
add(
    "indices",
    "index_fill",
    lambda x, i: x.index_fill(1, i, 9.0),
    normal(3, 5),
    torch.tensor([2, 0]),
)
add("indices", "isin", torch.isin, whole(3, 4), torch.tensor([1, 2]))

# ---- windows


def conv_case(name: str, act: Callable[..., Any], sizes: Any, weight: Any, **more: Any) -> None:
    out = weight[0] if "transpose" not in name else weight[1] * more.get("groups", 1)
    add(
        "windows",
        name,
        lambda x, w, b: act(x, w, b, **more),
        normal(*sizes),
        normal(*weight),
        normal(out),
    )


conv_case("conv1d", F.conv1d, (2, 3, 8), (4, 3, 3), padding=1, stride=2)
conv_case("conv2d", F.conv2d, (2, 3, 8, 7), (4, 3, 3, 2), padding=(1, 0))
conv_case(
    "conv2d_strided",
    F.conv2d,
    (1, 4, 9, 9),
    (4, 2, 3, 3),
    stride=2,
    dilation=2,
    groups=2,
    padding=2,
)
conv_case("conv2d_depthwise", F.conv2d, (1, 4, 6, 6), (4, 1, 3, 3), groups=4, padding=1)
conv_case("conv2d_same", F.conv2d, (1, 2, 6, 6), (3, 2, 3, 4), padding="same")
conv_case("conv2d_unbatched", F.conv2d, (2, 6, 6), (3, 2, 3, 3))
conv_case("conv3d", F.conv3d, (1, 2, 4, 5, 4), (3, 2, 2, 3, 2))
conv_case("conv_transpose1d", F.conv_transpose1d, (2, 3, 5), (3, 4, 3), stride=2, padding=1)
conv_case(
    "conv_transpose2d",
    F.conv_transpose2d,
    (1, 3, 4, 4),
    (3, 2, 3, 3),
    stride=2,
    padding=1,
    output_padding=1,
)
conv_case(
    "conv_transpose2d_groups", F.conv_transpose2d, (1, 4, 3, 3), (4, 2, 2, 2), groups=2, dilation=2
)
add("windows", "max_pool1d", lambda x: F.max_pool1d(x, 3, 2, 1), normal(2, 3, 9))
add("windows", "max_pool2d", lambda x: F.max_pool2d(x, 2), normal(1, 3, 6, 7))
add(
    "windows",
    "max_pool2d_ceil",
    lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    normal(1, 3, 6, 7),
)
add(
    "windows",
    "max_pool2d_places",
    lambda x: F.max_pool2d(x, 2, return_indices=True),
    normal(1, 3, 6, 7),
)
add("windows", "avg_pool1d", lambda x: F.avg_pool1d(x, 3, 2, 1), normal(2, 3, 9))
add("windows", "avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1), normal(1, 3, 6, 7))
add(
    "windows",
    "avg_pool2d_uncounted",
    lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    normal(1, 3, 6, 7),
)
add(
    "windows",
    "avg_pool2d_ceil",
    lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    normal(1, 3, 6, 7),
)
add(
    "windows",
    "avg_pool2d_divisor",
    lambda x: F.avg_pool2d(x, 2, divisor_override=3),
    normal(1, 3, 6, 6),
)
add("windows", "avg_pool3d", lambda x: F.avg_pool3d(x, 2), normal(1, 2, 4, 4, 4))
add("windows", "adaptive_avg_pool2d_1", lambda x: F.adaptive_avg_pool2d(x, 1), normal(1, 3, 6, 7))
add(
    "windows", "adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (3, 4)), normal(1, 3, 6, 7)
)
add("windows", "adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 3), normal(1, 3, 7))
add(
    "windows", "adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (3, 2)), normal(1, 3, 6, 7)
)
for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
    add(
        "images",
        f"resize_{mode}",
        lambda x, m=mode: F.interpolate(x, scale_factor=1.6, mode=m),
        normal(1, 2, 5, 6),
    )
    add(
        "images",
        f"resize_double_{mode}",
        lambda x, m=mode: F.interpolate(x, scale_factor=2, mode=m),
        normal(1, 2, 5, 6),
    )
    add(
        "images",
        f"resize_to_{mode}",
        lambda x, m=mode: F.interpolate(x, size=(7, 3), mode=m),
        normal(1, 2, 5, 6),
    )
for mode in ("bilinear", "bicubic"):
    add(
        "images",
        f"resize_corners_{mode}",
        lambda x, m=mode: F.interpolate(x, size=(7, 3), mode=m, align_corners=True),
        normal(1, 2, 5, 6),
    )
    for corners in (False, True):
        add(
            "antialiased",
            f"resize_{mode}_{corners}",
            lambda x, m=mode, c=corners: F.interpolate(
                x, size=(3, 9), mode=m, antialias=True, align_corners=c
            ),
            normal(1, 2, 8, 6),
        )
    add(
        "antialiased",
        f"resize_factor_{mode}",
        lambda x, m=mode: F.interpolate(x, scale_factor=0.4, mode=m, antialias=True),
        normal(1, 2, 8, 16),
    )
add(
    "images",
    "resize_linear",
    lambda x: F.interpolate(x, scale_factor=2.0, mode="linear"),
    normal(1, 2, 5),
)
add(
    "images",
    "resize_trilinear",
    lambda x: F.interpolate(x, scale_factor=2.0, mode="trilinear"),
    normal(1, 1, 2, 3, 2),
)
for mode in ("bilinear", "nearest", "bicubic"):
    for padding in ("zeros", "border", "reflection"):
        for corners in (False, True):
            add(
                "images",
                f"grid_{mode}_{padding}_{corners}",
                lambda x, g, m=mode, p=padding, c=corners: F.grid_sample(x, g, m, p, c),
                normal(1, 2, 4, 5),
                torch.rand(1, 3, 4, 2) * 3 - 1.5,
            )
add(
    "images",
    "affine_grid",
    lambda t: F.affine_grid(t, (2, 1, 3, 4), align_corners=False),
    normal(2, 2, 3),
)
add(
    "images",
    "affine_grid_corners",
    lambda t: F.affine_grid(t, (2, 1, 3, 4), align_corners=True),
    normal(2, 2, 3),
)

# ---- norms

add(
    "norms",
    "layer_norm",
    lambda x, w, b: F.layer_norm(x, (4,), w, b),
    normal(2, 3, 4),
    normal(4),
    normal(4),
)
add("norms", "layer_norm_bare", lambda x: F.layer_norm(x, (3, 4)), normal(2, 3, 4))
add("norms", "rms_norm", lambda x, w: F.rms_norm(x, (4,), w, 1e-6), normal(2, 3, 4), normal(4))
add(
    "norms",
    "batch_norm",
    lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b),
    normal(2, 3, 4),
    normal(3),
    positive(3),
    normal(3),
    normal(3),
)
add(
    "norms",
    "batch_norm_2",
    lambda x, m, v: F.batch_norm(x, m, v),
    normal(5, 3),
    normal(3),
    positive(3),
)
add(
    "norms", "batch_norm_own", lambda x: F.batch_norm(x, None, None, training=True), normal(5, 3, 2)
)
add(
    "norms",
    "group_norm",
    lambda x, w, b: F.group_norm(x, 2, w, b),
    normal(2, 4, 3, 2),
    normal(4),
    normal(4),
)
add("norms", "instance_norm", lambda x: F.instance_norm(x), normal(2, 3, 4, 5))
add("norms", "local_response_norm", lambda x: F.local_response_norm(x, 2), normal(2, 4, 3, 3))

# ---- what is rarer

add("more", "unfold", lambda x: F.unfold(x, 2, padding=1, stride=2), normal(1, 2, 4, 5))
add("more", "fold", lambda x: F.fold(x, (4, 5), 2, padding=1), normal(1, 8, 30))
for mode in ("sum", "mean"):
    add(
        "more",
        f"embedding_bag_{mode}",
        lambda i, w, m=mode: F.embedding_bag(i, w, mode=m),
        whole(2, 3, low=0),
        normal(6, 4),
    )
add("more", "cross_entropy", F.cross_entropy, normal(3, 5), whole(3, low=0, high=5))
add("more", "cross_entropy_shares", F.cross_entropy, normal(3, 5), torch.rand(3, 5))
add("more", "nll_loss", F.nll_loss, normal(3, 5), whole(3, low=0, high=5))
add("more", "binary_cross_entropy", F.binary_cross_entropy, torch.rand(4), torch.rand(4))
logits = F.binary_cross_entropy_with_logits
add("more", "binary_cross_entropy_logits", logits, normal(4), torch.rand(4))
add("more", "smooth_l1_loss", lambda x, y: F.smooth_l1_loss(x, y, beta=0.5), normal(6), normal(6))
add("more", "huber_loss", lambda x, y: F.huber_loss(x, y, delta=0.7), normal(6), normal(6))
add("more", "kl_div", lambda x, y: F.kl_div(x, y, reduction="sum"), normal(3, 2), torch.rand(3, 2))
add("more", "as_strided", lambda x: x.as_strided((2, 3), (1, 2), 1), normal(3, 4))
add("more", "tril_indices", lambda x: x[tuple(torch.tril_indices(3, 3))], normal(3, 3))
add("more", "logcumsumexp", lambda x: torch.logcumsumexp(x, 1), normal(3, 4))
add("more", "trace", torch.trace, normal(3, 3))
add("more", "diag", torch.diag, normal(3))
add("more", "unique", torch.unique, whole(9, low=0, high=4))
add(
    "more",
    "unique_all",
    lambda x: torch.unique(x, return_inverse=True, return_counts=True),
    whole(9),
)
add("more", "bincount", torch.bincount, whole(9, low=0, high=5))
each = torch.repeat_interleave
add("more", "repeat_interleave", lambda x, r: each(x, r, 0), normal(3, 2), torch.tensor([1, 2, 0]))
for how in ("mean", "sum", "amax", "amin", "prod"):
    for own in (True, False):
        add(
            "more",
            f"scatter_reduce_{how}_{own}",
            lambda x, i, s, h=how, o=own: x.scatter_reduce(0, i, s, h, include_self=o),
            normal(3, 5),
            whole(2, 5, low=0, high=3),
            normal(2, 5),
        )


def scanned(x: Tensor) -> tuple[Tensor, Tensor]:
    def step(total: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        total = total + row
        return total, total * 2

    return torch._higher_order_ops.scan(step, torch.zeros(3), x, dim=0)


def mapped(x: Tensor, y: Tensor) -> Tensor:
    return torch._higher_order_ops.map(lambda row, z: row.sum() * z, x, y)


add("more", "scan", scanned, normal(4, 3))
add("more", "map", mapped, normal(4, 3), normal(2))
add("more", "written", lambda x: x.clone().add_(1).mul_(2).relu_().clamp_(0, 1), normal(3, 4))
add("more", "index_by_tensor", lambda x, i: x[i], normal(3, 4), torch.tensor(-1))
add("more", "where_places", lambda x: torch.where(x > 0), normal(3, 4))


# ---- differences of neighbours

for count in (0, 1, 2, 3, 7):
    for name, operand, joined in [
        ("floats", normal(3, 4), normal(3, 2)),
        ("integers", whole(3, 4), whole(3, 2)),
        ("bools", flags(3, 4), flags(3, 2)),
        ("bytes", whole(3, 4, low=0, dtype=torch.uint8), whole(3, 2, low=0, dtype=torch.uint8)),
        ("promoted", whole(3, 4), normal(3, 2)),
    ]:

        def between(x: Tensor, y: Tensor, n: int = count) -> list[Tensor]:
            joined = [torch.diff(x, n), torch.diff(x, n, prepend=y), torch.diff(x, n, append=y)]
            return [*joined, torch.diff(x, n, prepend=y, append=y), torch.diff(x, n, dim=0)]

        add("differences", f"{name}_{count}", between, operand, joined)

# ---- running extremes, the gamma function, linear algebra

SPECIAL = torch.tensor([-2.5, 0.5, 1, 2, 3.3, 1e5, 1e-3, -1e-3, -30.2, 8, 7.99])
POLES = torch.tensor([0, -1, -2, torch.inf, torch.nan])


def definite(*sizes: int) -> Tensor:
    root = torch.randn(*sizes)
    return root @ root.mT + torch.eye(sizes[-1])


add("algebra", "cummax", lambda x: listed(torch.cummax(x, 1)), whole(3, 7, low=0, high=3))
add("algebra", "cummin", lambda x: listed(torch.cummin(x, 0)), normal(5, 2))
add("algebra", "cummax_nan", lambda x: listed(torch.cummax(x, 0)), POLES)
for name in ("lgamma", "digamma"):
    add("algebra", name, getattr(torch, name), SPECIAL)
add("algebra", "lgamma_poles", torch.lgamma, POLES)
add("algebra", "digamma_poles", torch.digamma, POLES[1:3])
add("algebra", "det", torch.det, normal(2, 4, 4))
add("algebra", "slogdet", lambda x: listed(torch.slogdet(x)), normal(2, 4, 4))
add("algebra", "slogdet_singular", lambda x: listed(torch.linalg.slogdet(x)), torch.ones(3, 3))
add("algebra", "inv", torch.inverse, definite(2, 3, 3))
add("algebra", "solve", torch.linalg.solve, definite(2, 3, 3), normal(2, 3, 2))
add("algebra", "solve_vector", torch.linalg.solve, definite(3, 3), normal(3))
add("algebra", "solve_broadcast", torch.linalg.solve, definite(2, 3, 3), normal(3, 4))
add("algebra", "cholesky", torch.linalg.cholesky, definite(2, 3, 3))
add("algebra", "cholesky_upper", lambda x: torch.linalg.cholesky(x, upper=True), definite(3, 3))

# ---- order statistics, and searches in several sequences

for rank, operand in enumerate([normal(), normal(5), whole(4, 6, low=0, high=3)]):
    dim = max(rank - 1, 0)
    for name in ("sort", "median", "nanmedian", "mode"):
        add(
            "order",
            f"{name}_{rank}",
            lambda x, n=name, d=dim: listed(getattr(torch, n)(x, dim=d))[:1],
            operand,
        )
    add("order", f"topk_{rank}", lambda x, d=dim: listed(torch.topk(x, 1, d))[:1], operand)
    add("order", f"kthvalue_{rank}", lambda x, d=dim: listed(torch.kthvalue(x, 1, d))[:1], operand)
add(
    "order",
    "mode_position",
    lambda x: listed(torch.mode(x, 0, keepdim=True)),
    whole(6, 3, low=0, high=2),
)
gaps = torch.tensor([[3.0, torch.nan, 1.0, 2.0], [torch.nan, torch.nan, 4.0, 0.0], [torch.nan] * 4])
add("order", "nanmedian_gaps", lambda x: [torch.nanmedian(x), torch.nanmedian(x, 1)[0]], gaps)
add("order", "median_gaps", lambda x: [torch.median(x), torch.median(x, 1)[0]], gaps)
add("order", "median_all", torch.median, normal(3, 4))
steps = torch.sort(whole(2, 3, 5), -1)[0]
for right in (False, True):
    add(
        "order",
        f"search_{right}",
        lambda x, y, r=right: torch.searchsorted(x, y, right=r),
        steps,
        whole(2, 3, 4),
    )
add(
    "order",
    "search_by_order",
    lambda x, y: torch.searchsorted(x, y, sorter=torch.argsort(x)),
    normal(6),
    normal(2, 3),
)
add(
    "order",
    "unique_consecutive",
    lambda x: torch.unique_consecutive(x, dim=0, return_inverse=True, return_counts=True),
    whole(9, 2, low=0, high=2),
)
add(
    "order",
    "logcumsumexp",
    lambda x: torch.logcumsumexp(x, 0),
    torch.tensor([-2000.0, -1000.0, 0.0, -3.0]),
)

# ---- writes and reads at positions

for reduce in ("mean", "prod", "amin", "amax"):
    for own in (normal, whole):
        add(
            "places",
            f"index_reduce_{reduce}_{own.__name__}",
            lambda x, i, y, r=reduce: torch.index_reduce(x, 1, i, y, r, include_self=False),
            own(3, 4),
            whole(5, low=0, high=4),
            own(3, 5),
        )
    add(
        "places",
        f"scatter_scalar_{reduce}",
        lambda x, i, y, r=reduce: torch.scatter_reduce(x, 0, i, y, r),
        normal(),
        torch.tensor(0),
        normal(),
    )
for accumulate in (False, True):
    add(
        "places",
        f"put_{accumulate}",
        lambda x, i, y, a=accumulate: torch.Tensor.put(x, i, y, accumulate=a),
        normal(3, 4),
        torch.tensor([[0, -1], [5, 6]]),
        normal(2, 2),
    )
add(
    "places",
    "take_along_broadcast",
    lambda x, i: torch.take_along_dim(x, i, 1),
    normal(3, 4),
    whole(1, 2, low=0, high=4),
)
add(
    "places",
    "take_along_flat",
    lambda x, i: torch.take_along_dim(x, i),
    normal(3, 4),
    whole(5, low=0, high=12),
)
add(
    "places",
    "gather_nothing",
    lambda x, i: torch.gather(x, 0, i),
    normal(4),
    torch.zeros(3, 0, dtype=torch.int64),
)
add(
    "places",
    "as_strided_scatter",
    lambda x, y: torch.as_strided_scatter(x, y, (2, 3), (4, 1), 1),
    normal(3, 4),
    normal(2, 3),
)
add(
    "places",
    "masked_select_broadcast",
    lambda x, m: torch.masked_select(x, m),
    normal(4),
    flags(3, 1),
)
add(
    "places",
    "masked_scatter_broadcast",
    lambda x, m, y: torch.masked_scatter(x, m, y),
    normal(4),
    flags(3, 4),
    normal(12),
)
for offset in (-2, -1, 0, 1, 2):
    add("places", f"diagonal_matrix_{offset}", lambda x, o=offset: torch.diag(x, o), normal(3))
add(
    "places",
    "splits",
    lambda x: [*torch.hsplit(x, 2), *torch.vsplit(x, [1]), *torch.dsplit(x, 2)],
    normal(3, 4, 2),
)
for fill in (-1, 7):
    add(
        "places",
        f"nonzero_static_{fill}",
        lambda x, f=fill: torch.nonzero_static(x, size=4, fill_value=f),
        whole(3, 3, low=0, high=2),
    )
add("places", "nonzero_scalar", torch.nonzero, torch.tensor(3.0))
for name, operand in [("rows", normal(3, 4)), ("stacked", normal(2, 3, 4))]:
    for p in (1.0, 2.0, 3.0, torch.inf):
        add(
            "places",
            f"cdist_{name}_{p}",
            lambda x, y, p=p: torch.cdist(x, y, p),
            operand,
            normal(5, 1, 2, 4),
        )
add("places", "pdist", lambda x: F.pdist(x, 1.5), normal(5, 3))
add(
    "places",
    "cosine_broadcast",
    lambda x, y: F.cosine_similarity(x, y, -1),
    normal(3, 4),
    normal(3, 1),
)

# ---- pads with negative amounts, pools of integers

for mode, amounts in [
    ("replicate", (-3, 4)),
    ("replicate", (2, -1)),
    ("reflect", (-1, 2)),
    ("circular", (-1, 1)),
    ("constant", (-2, 3)),
]:
    add(
        "pads",
        f"{mode}_{amounts}",
        lambda x, m=mode, a=amounts: F.pad(x, a, mode=m),
        normal(2, 3, 4),
    )
add("pads", "pool_padded", lambda x: F.avg_pool2d(x, 3, 2, 1), whole(2, 5, 6))
add("pads", "pool_divisor", lambda x: F.avg_pool2d(x, 2, 1, 1, divisor_override=3), whole(2, 5, 6))

# ---- matrices and special functions

add("rare", "lu", lambda x: listed(torch.linalg.lu(x)), normal(2, 3, 4))
add(
    "rare",
    "lu_unpack",
    lambda x: listed(torch.lu_unpack(*torch.linalg.lu_factor(x))),
    normal(2, 4, 4),
)
for left in (True, False):
    for adjoint in (True, False):
        add(
            "rare",
            f"lu_solve_{left}_{adjoint}",
            lambda x, y, k=left, a=adjoint: torch.linalg.lu_solve(
                *torch.linalg.lu_factor(x), y, left=k, adjoint=a
            ),
            normal(2, 3, 3),
            normal(2, 3, 3),
        )
add("rare", "pinv_lower", lambda x: torch.linalg.pinv(x, hermitian=True), normal(3, 3))
add(
    "rare",
    "frexp",
    lambda x: listed(torch.frexp(x)),
    torch.tensor([0.0, 1.0, -0.75, 8.0, 3e-30, -torch.inf, 0.9999999]),
)
for order in range(4):
    add(
        "rare",
        f"polygamma_{order}",
        lambda x, n=order: torch.polygamma(n, x),
        torch.tensor([0.2, 1.0, 7.5, 30.0, -3.3]),
    )
add(
    "rare",
    "zeta",
    torch.special.zeta,
    torch.tensor([1.0, 1.5, 2.0, 9.0, 0.5, 3.0]),
    torch.tensor([2.0, 0.1, 30.0, 1.0, 1.0, -1.5]),
)

# ---- interpolation of bytes, norms of 16-bit floats

for mode, antialias in [("bilinear", False), ("bicubic", False), ("bilinear", True)]:
    for size in ((3, 9), (11, 4)):
        add(
            "bytes",
            f"{mode}_{antialias}_{size}",
            lambda x, m=mode, a=antialias, s=size: F.interpolate(x, s, mode=m, antialias=a),
            whole(1, 3, 6, 7, low=0, high=256, dtype=torch.uint8),
        )
large = torch.tensor([[300.0, -400.0, 500.0, 1.0]], dtype=torch.float16)
add("bytes", "rms_norm", lambda x: F.rms_norm(x, (4,)), large)
add("bytes", "layer_norm", lambda x: F.layer_norm(x, (4,)), large)
add("bytes", "group_norm", lambda x: F.group_norm(x, 2), large)
add("bytes", "var", lambda x: torch.var(x * 0.5, dim=1), large)

# ---- number theory, incomplete gamma, reflections, segments

add("seldom", "gcd", torch.gcd, whole(9, low=-60, high=60), whole(9, low=-60, high=60))
add("seldom", "lcm", torch.lcm, whole(9, low=-9, high=9), whole(9, low=-9, high=9))
add(
    "seldom",
    "nextafter",
    torch.nextafter,
    torch.tensor([1.0, 1.0, 0.0, 0.0, -0.5, 2.0, torch.inf, torch.nan]),
    torch.tensor([2.0, 0.0, 1.0, -1.0, 0.0, 2.0, 0.0, 1.0]),
)
add(
    "seldom",
    "ndtri",
    torch.special.ndtri,
    torch.tensor([0.0, 1e-30, 0.1, 0.5, 0.77, 0.9999999, 1.0, 1.5]),
)
for act in (torch.special.gammainc, torch.special.gammaincc):
    add(
        "seldom",
        act.__name__,
        act,
        torch.tensor([0.5, 3.0, 20.0, 20.0, 0.0, 1.0, 2.0, -1.0, torch.inf]),
        torch.tensor([0.1, 9.0, 11.0, 31.0, 1.0, 0.0, torch.inf, 1.0, 1.0]),
    )
add(
    "seldom",
    "householder",
    torch.linalg.householder_product,
    normal(2, 4, 3),
    normal(2, 2),
)
for is_left, is_transposed in [(True, False), (True, True), (False, True)]:
    add(
        "seldom",
        f"ormqr_{is_left}_{is_transposed}",
        lambda x, t, y, k=is_left, a=is_transposed: torch.ormqr(x, t, y, left=k, transpose=a),
        normal(4, 3),
        normal(3),
        normal(4, 4),
    )
for reduction in words("sum mean max min prod"):
    add(
        "seldom",
        f"segments_{reduction}",
        lambda x, n, r=reduction: torch.segment_reduce(x, r, lengths=n),
        normal(6, 2),
        torch.tensor([2, 0, 3, 1]),
    )
add(
    "seldom",
    "segments_by_offsets",
    lambda x, n: torch.segment_reduce(x, "max", offsets=n, initial=0.5),
    normal(6),
    torch.tensor([0, 2, 2, 6]),
)
add("seldom", "cartesian", torch.cartesian_prod, normal(3), normal(2))

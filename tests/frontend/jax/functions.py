"""Functions as users of JAX write them, with the StructInfo of their arguments."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

import structir

Tree = Any


def f32(*sizes: int | str) -> Any:
    return structir.parse_struct_info(f'R.Tensor({sizes!r}, "float32")')


def i32(*sizes: int | str) -> Any:
    return structir.parse_struct_info(f'R.Tensor({sizes!r}, "int32")')


def u32(*sizes: int | str) -> Any:
    return structir.parse_struct_info(f'R.Tensor({sizes!r}, "uint32")')


KEY = u32(2)


def layer_norm(x: Any, p: Tree) -> Any:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * p["scale"] + p["bias"]


def transformer_block(p: Tree, x: Any) -> Any:
    length, heads = x.shape[0], 2
    h = layer_norm(x, p["norm"])
    q, k, v = (h @ p[name] for name in ("q", "k", "v"))
    q, k, v = (t.reshape(length, heads, -1).transpose(1, 0, 2) for t in (q, k, v))
    scores = jnp.einsum("hqd,hkd->hqk", q, k) / jnp.sqrt(q.shape[-1])
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -jnp.inf)
    mixed = jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores), v)
    x = x + mixed.transpose(1, 0, 2).reshape(length, -1) @ p["o"]
    return x + jax.nn.gelu(layer_norm(x, p["norm"]) @ p["up"]) @ p["down"]


BLOCK = {
    "norm": {"scale": f32(8), "bias": f32(8)},
    **{name: f32(8, 8) for name in "qkvo"},
    "up": f32(8, 16),
    "down": f32(16, 8),
}


def lstm(p: Tree, xs: Any) -> Any:
    def cell(state: Any, x: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(x @ p["w"] + h @ p["u"] + p["b"], 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros(p["u"].shape[0])
    return lax.scan(cell, (zeros, zeros), xs)


def mixture_of_experts(x: Any, router: Any, experts: Any) -> Any:
    weights, chosen = lax.top_k(jax.nn.softmax(x @ router), 2)
    outputs = jnp.einsum("ni,eij->nej", x, experts)
    picked = jnp.take_along_axis(outputs, chosen[..., None], axis=1)
    return (weights[..., None] * picked).sum(1)


def k_means(points: Any, centers: Any) -> Any:
    def step(_: int, centers: Any) -> Any:
        distances = ((points[:, None] - centers[None]) ** 2).sum(-1)
        member = jax.nn.one_hot(jnp.argmin(distances, 1), centers.shape[0])
        return (member.T @ points) / jnp.maximum(member.sum(0), 1)[:, None]

    return lax.fori_loop(0, 5, step, centers)


def n_body(positions: Any, masses: Any) -> Any:
    def energy(positions: Any) -> Any:
        offsets = positions[:, None] - positions[None]
        distances = jnp.sqrt((offsets**2).sum(-1) + 0.1)
        return -0.5 * (masses[:, None] * masses[None] / distances).sum()

    return positions - 0.01 * jax.grad(energy)(positions)


def gaussian_process(x: Any, y: Any, query: Any) -> Any:
    def kernel(a: Any, b: Any) -> Any:
        return jnp.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(-1))

    factor = jnp.linalg.cholesky(kernel(x, x) + 0.1 * jnp.eye(x.shape[0]))
    weights = jax.scipy.linalg.cho_solve((factor, True), y)
    return kernel(query, x) @ weights


def conjugate_gradient(a: Any, b: Any) -> Any:
    matrix = a @ a.T + jnp.eye(4)

    def condition(state: Any) -> Any:
        _, r, _, steps = state
        return ((r @ r) > 1e-6) & (steps < 20)

    def step(state: Any) -> Any:
        x, r, p, steps = state
        moved = matrix @ p
        alpha = (r @ r) / (p @ moved)
        x, rest = x + alpha * p, r - alpha * moved
        return x, rest, rest + (rest @ rest) / (r @ r) * p, steps + 1

    return lax.while_loop(condition, step, (jnp.zeros(4), b, b, 0))[0]


def beam_step(scores: Any, logits: Any) -> Any:
    total = scores[:, None] + jax.nn.log_softmax(logits)
    best, flat = lax.top_k(total.reshape(-1), 3)
    return best, flat // logits.shape[1], flat % logits.shape[1]


def u_net(p: Tree, x: Any) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")

    def conv(x: Any, w: Any, stride: int = 1) -> Any:
        return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=numbers)

    first = jax.nn.relu(conv(x, p["in"]))
    down = jax.nn.relu(conv(first, p["down"], 2))
    up = lax.conv_transpose(down, p["up"], (2, 2), "SAME", dimension_numbers=numbers)
    return conv(jnp.concatenate([up, first], -1), p["out"])


U_NET = {
    "in": f32(3, 3, 3, 4),
    "down": f32(3, 3, 4, 8),
    "up": f32(2, 2, 8, 4),
    "out": f32(3, 3, 8, 2),
}


def train_step(p: Tree, x: Any, y: Any) -> Any:
    def loss(p: Tree) -> Any:
        hidden = jax.nn.relu(x @ p["w"] + p["b"])
        return ((hidden @ p["v"] - y) ** 2).mean()

    value, gradients = jax.value_and_grad(loss)(p)
    return value, jax.tree_util.tree_map(lambda a, g: a - 0.1 * g, p, gradients)


def convolution_gradients(x: Any, w: Any) -> Any:
    def loss(x: Any, w: Any) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        y = lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=numbers, feature_group_count=3
        )
        pooled = lax.reduce_window(y, -jnp.inf, lax.max, (1, 3, 2, 1), (1, 2, 2, 1), "SAME")
        return jnp.sin(pooled).sum()

    return jax.grad(loss, argnums=(0, 1))(x, w)


def embedding_gradient(table: Any, tokens: Any) -> Any:
    return jax.grad(lambda table: jnp.tanh(table[tokens].mean(1)).sum())(table)


def samples(key: Any) -> Any:
    first, second = jax.random.split(key)
    noise = jax.random.normal(first, (3, 4)) + jax.random.uniform(second, (4,))
    return noise, jax.random.permutation(jax.random.fold_in(second, 3), 6)


def ring_buffer(buffer: Any, rows: Any, position: Any) -> Any:
    buffer = lax.dynamic_update_slice(buffer, rows, (position[0], 0))
    return buffer, lax.dynamic_slice(buffer, (position[0] + 1, 1), (2, 2))


def linear_algebra(a: Any) -> Any:
    return jnp.linalg.solve(a, a[0]), jnp.linalg.inv(a), jnp.linalg.slogdet(a), jnp.linalg.qr(a)[1]


FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "transformer_block": (transformer_block, (BLOCK, f32("n", 8))),
    "lstm": (lstm, ({"w": f32(3, 8), "u": f32(2, 8), "b": f32(8)}, f32("n", 3))),
    "mixture_of_experts": (mixture_of_experts, (f32("n", 8), f32(8, 4), f32(4, 8, 6))),
    "k_means": (k_means, (f32("n", 3), f32(4, 3))),
    "n_body": (n_body, (f32("n", 3), f32("n"))),
    "gaussian_process": (gaussian_process, (f32("n", 2), f32("n"), f32("m", 2))),
    "conjugate_gradient": (conjugate_gradient, (f32(4, "n"), f32(4))),
    "beam_step": (beam_step, (f32("n"), f32("n", 7))),
    "u_net": (u_net, (U_NET, f32("n", 8, 8, 3))),
    "train_step": (
        train_step,
        ({"w": f32(4, 8), "b": f32(8), "v": f32(8, 2)}, f32("n", 4), f32("n", 2)),
    ),
    "vmap_of_grad": (
        jax.vmap(jax.grad(lambda r: jnp.sum(jnp.tanh(r) ** 2))),
        (f32("n", 5),),
    ),
    "hessian": (jax.hessian(lambda r: jnp.sum(jnp.tanh(r) ** 3)), (f32(5),)),
    "jvp": (lambda x, t: jax.jvp(lambda x: jnp.sort(x, 0) * x, (x,), (t,)), (f32("n", 3),) * 2),
    "checkpoint": (jax.grad(lambda x: jax.checkpoint(jnp.sin)(x).sum()), (f32("n"),)),
    "convolution_gradients": (convolution_gradients, (f32("n", 8, 8, 3), f32(3, 3, 1, 6))),
    "embedding_gradient": (embedding_gradient, (f32(5, 3), i32("n", 4))),
    "samples": (samples, (KEY,)),
    "ring_buffer": (ring_buffer, (f32(8, 3), f32(2, 3), i32(1))),
    "linear_algebra": (linear_algebra, (f32(4, 4),)),
    "list_of_layers": (
        lambda ps, x: [x := jnp.tanh(x @ p) for p in ps],
        ([f32(4, 4), f32(4, 4)], f32("n", 4)),
    ),
}

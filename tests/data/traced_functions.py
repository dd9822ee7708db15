"""Functions as a user of JAX writes them; only the import lines differ.

`CASES` maps each name to the function and its arguments. `tests/data/traced_functions.npz` has the
results of JAX; `python tests/data/traced_functions.py` writes it with JAX instead of StructIR.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

import structir as jax
import structir.numpy as jnp
from structir import lax, nn, random

CASES = {}


def case(*arguments):
    def register(function):
        CASES[function.__name__] = (function, arguments)
        return function

    return register


def normal(*shape, seed=0, scale=1.0):
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype("float32")


def whole(*shape, high, seed=0):
    return np.random.default_rng(seed).integers(0, high, shape).astype("int32")


# ---- networks


def dense(n, m, seed):
    return {"w": normal(n, m, seed=seed, scale=n**-0.5), "b": normal(m, seed=seed + 1, scale=0.1)}


def apply_dense(p, x):
    return x @ p["w"] + p["b"]


@case([dense(8, 16, 0), dense(16, 16, 2), dense(16, 3, 4)], normal(5, 8))
def mlp(layers, x):
    for layer in layers[:-1]:
        x = nn.relu(apply_dense(layer, x))
    return apply_dense(layers[-1], x)


def layer_norm(x, scale, bias, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    var = jnp.var(x, axis=-1, keepdims=True)
    return (x - mean) / jnp.sqrt(var + eps) * scale + bias


def block_params(d, seed):
    names = ["q", "k", "v", "o", "up", "down"]
    sizes = [(d, d)] * 4 + [(d, 4 * d), (4 * d, d)]
    p = {
        n: normal(*s, seed=seed + k, scale=s[0] ** -0.5)
        for k, (n, s) in enumerate(zip(names, sizes))
    }
    p["ln1"] = p["ln2"] = (np.ones(d, "float32"), np.zeros(d, "float32"))
    return p


def attention(p, x, heads, mask=None):
    b, t, d = x.shape
    split = lambda y: y.reshape(b, t, heads, d // heads).transpose(0, 2, 1, 3)
    q, k, v = (split(x @ p[n]) for n in "qkv")
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / jnp.sqrt(d // heads)
    if mask is not None:
        scores = jnp.where(mask, scores, -1e9)
    out = nn.softmax(scores, axis=-1) @ v
    return out.transpose(0, 2, 1, 3).reshape(b, t, d) @ p["o"]


@case(block_params(16, 0), normal(2, 5, 16))
def transformer_block(p, x):
    t = x.shape[1]
    mask = jnp.tril(jnp.ones((t, t), dtype=bool))
    x = x + attention(p, layer_norm(x, *p["ln1"]), 4, mask)
    return x + nn.gelu(layer_norm(x, *p["ln2"]) @ p["up"]) @ p["down"]


@case(
    {
        "emb": normal(11, 16),
        "pos": normal(8, 16, seed=1),
        "blocks": [block_params(16, 3), block_params(16, 13)],
    },
    whole(2, 6, high=11),
)
def language_model_loss(params, tokens):
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    x = params["emb"][inputs] + params["pos"][: inputs.shape[1]]
    for p in params["blocks"]:
        x = transformer_block(p, x)
    logits = x @ params["emb"].T
    logp = nn.log_softmax(logits)
    picked = jnp.take_along_axis(logp, targets[..., None], axis=-1)
    return -picked.mean()


@case(
    {"emb": normal(11, 16), "pos": normal(8, 16, seed=1), "blocks": [block_params(16, 3)]},
    whole(2, 6, high=11),
)
def language_model_gradient(params, tokens):
    return jax.value_and_grad(language_model_loss)(params, tokens)


class LSTMState(NamedTuple):
    h: object
    c: object


@case(
    {"wi": normal(4, 24), "wh": normal(6, 24, seed=1), "b": normal(24, seed=2)},
    normal(7, 2, 4, seed=3),
)
def lstm(p, xs):
    def step(state, x):
        gates = x @ p["wi"] + state.h @ p["wh"] + p["b"]
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        c = nn.sigmoid(f + 1.0) * state.c + nn.sigmoid(i) * jnp.tanh(g)
        h = nn.sigmoid(o) * jnp.tanh(c)
        return LSTMState(h, c), h

    zeros = jnp.zeros((xs.shape[1], 6))
    final, hs = lax.scan(step, LSTMState(zeros, zeros), xs)
    return final.c, hs


@case(
    {"wi": normal(4, 24), "wh": normal(6, 24, seed=1), "b": normal(24, seed=2)},
    normal(7, 2, 4, seed=3),
)
def lstm_gradient(p, xs):
    return jax.grad(lambda q: jnp.sum(lstm(q, xs)[1] ** 2))(p)


@case({"w": normal(3, 15), "u": normal(5, 15, seed=1)}, normal(6, 3, seed=2))
def gru_reversed(p, xs):
    def cell(h, x):
        xz, xr, xn = jnp.split(x @ p["w"], 3)
        hz, hr, hn = jnp.split(h @ p["u"], 3)
        z, r = nn.sigmoid(xz + hz), nn.sigmoid(xr + hr)
        h = (1 - z) * jnp.tanh(xn + r * hn) + z * h
        return h, h

    return lax.scan(cell, jnp.zeros(5), xs, reverse=True)


def conv(x, w, stride=1):
    return lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


@case(
    {
        "d1": normal(3, 3, 2, 4, scale=0.3),
        "d2": normal(3, 3, 4, 8, seed=1, scale=0.3),
        "u1": normal(3, 3, 12, 4, seed=2, scale=0.3),
        "out": normal(1, 1, 4, 1, seed=3),
    },
    normal(2, 8, 8, 2),
)
def unet(p, x):
    skip = nn.relu(conv(x, p["d1"]))
    b, h, w, c = skip.shape
    pooled = skip.reshape(b, h // 2, 2, w // 2, 2, c).max(axis=(2, 4))
    low = nn.relu(conv(pooled, p["d2"]))
    up = jnp.repeat(jnp.repeat(low, 2, axis=1), 2, axis=2)
    y = nn.relu(conv(jnp.concatenate([skip, up], axis=-1), p["u1"]))
    return conv(y, p["out"])


@case(
    {
        "gate": normal(8, 4),
        "w1": normal(4, 8, 16, seed=1, scale=0.3),
        "w2": normal(4, 16, 8, seed=2, scale=0.3),
    },
    normal(6, 8, seed=3),
)
def mixture_of_experts(p, x):
    logits = x @ p["gate"]
    weights, chosen = lax.top_k(nn.softmax(logits), 2)
    weights = weights / weights.sum(-1, keepdims=True)
    hidden = nn.relu(jnp.einsum("nd,edh->neh", x, p["w1"]))
    outputs = jnp.einsum("neh,ehd->ned", hidden, p["w2"])
    mask = nn.one_hot(chosen, 4) * weights[..., None]
    return jnp.einsum("nke,ned->nd", mask, outputs)


@case(normal(4, 6, 16), normal(4, 6, 16, seed=1), normal(4, 6, 16, seed=2))
def rotary_attention(q, k, v):
    t, d = q.shape[-2:]
    angles = jnp.arange(t)[:, None] * (10000.0 ** (-jnp.arange(0, d, 2) / d))
    sin, cos = jnp.sin(angles), jnp.cos(angles)

    def rotate(x):
        a, b = x[..., ::2], x[..., 1::2]
        return jnp.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(x.shape)

    scores = rotate(q) @ jnp.swapaxes(rotate(k), -1, -2) * d**-0.5
    causal = jnp.arange(t)[:, None] >= jnp.arange(t)
    return nn.softmax(jnp.where(causal, scores, -jnp.inf)) @ v


@case(normal(3, 16), normal(10, 2, 8, seed=1), normal(10, 2, 8, seed=2), 4)
def kv_cache_step(x, keys, values, position):
    q = x.reshape(3, 2, 8)[0]
    keys = lax.dynamic_update_slice(keys, q[None], (position, 0, 0))
    values = values.at[position].set(q * 0.5)
    scores = jnp.einsum("hd,thd->ht", q, keys) / jnp.sqrt(8)
    scores = jnp.where(jnp.arange(10) <= position, scores, -1e9)
    return jnp.einsum("ht,thd->hd", nn.softmax(scores), values), keys


@case(
    normal(4, 5, 8),
    {"mean": np.zeros(8, "float32"), "var": np.ones(8, "float32")},
    normal(8, seed=1),
)
def batch_norm_train(x, stats, scale):
    mean, var = x.mean((0, 1)), x.var((0, 1))
    stats = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, stats, {"mean": mean, "var": var})
    return scale * (x - mean) * lax.rsqrt(var + 1e-5), stats


@case(normal(3, 4, 4), normal(6, 4, seed=1))
def graph_network(nodes, senders_features):
    senders = jnp.array([0, 1, 2, 3, 0, 2])
    receivers = jnp.array([1, 2, 3, 0, 2, 1])
    messages = nodes[0][senders] * nn.sigmoid(senders_features)
    total = jnp.zeros((4, 4)).at[receivers].add(messages)
    degree = jnp.zeros(4).at[receivers].add(1.0)
    return total / jnp.maximum(degree, 1)[:, None]


# ---- numerical algorithms


@case(normal(30, 2), normal(4, 2, seed=1))
def k_means(points, centres):
    def step(_, centres):
        distances = jnp.sum((points[:, None] - centres[None]) ** 2, -1)
        nearest = jnp.argmin(distances, axis=1)
        hits = nn.one_hot(nearest, centres.shape[0])
        counts = hits.sum(0)[:, None]
        return jnp.where(counts > 0, hits.T @ points / jnp.maximum(counts, 1), centres)

    return lax.fori_loop(0, 8, step, centres)


@case(normal(5, 3), normal(5, 3, seed=1, scale=0.1), np.ones(5, "float32"))
def n_body(positions, velocities, masses):
    def acceleration(x):
        offsets = x[None] - x[:, None]
        distance3 = (jnp.sum(offsets**2, -1) + 0.1) ** 1.5
        return jnp.sum(masses[None, :, None] * offsets / distance3[..., None], axis=1)

    def leapfrog(state, _):
        x, v = state
        v = v + 0.005 * acceleration(x)
        x = x + 0.01 * v
        v = v + 0.005 * acceleration(x)
        energy = 0.5 * jnp.sum(masses * jnp.sum(v * v, -1))
        return (x, v), energy

    return lax.scan(leapfrog, (positions, velocities), None, length=20)


def rbf(a, b, length=1.0):
    return jnp.exp(-0.5 * jnp.sum((a[:, None] - b[None]) ** 2, -1) / length**2)


@case(normal(8, 2), normal(8, seed=1), normal(5, 2, seed=2))
def gaussian_process(x, y, query):
    k = rbf(x, x) + 0.1 * jnp.eye(x.shape[0])
    factor = jnp.linalg.cholesky(k)
    alpha = jax.scipy.linalg.cho_solve((factor, True), y)
    cross = rbf(query, x)
    mean = cross @ alpha
    v = jax.scipy.linalg.solve_triangular(factor, cross.T, lower=True)
    likelihood = (
        -0.5 * y @ alpha - jnp.log(jnp.diag(factor)).sum() - 0.5 * len(x) * jnp.log(2 * jnp.pi)
    )
    return mean, 1.0 - jnp.sum(v**2, 0), likelihood


@case(normal(6, 6), normal(6, seed=1))
def conjugate_gradient(a, b):
    a = a @ a.T + jnp.eye(6)

    def condition(state):
        _, r, _, k = state
        return (jnp.vdot(r, r) > 1e-10) & (k < 20)

    def body(state):
        x, r, p, k = state
        ap = a @ p
        alpha = jnp.vdot(r, r) / jnp.vdot(p, ap)
        x, r_new = x + alpha * p, r - alpha * ap
        beta = jnp.vdot(r_new, r_new) / jnp.vdot(r, r)
        return x, r_new, r_new + beta * p, k + 1

    return lax.while_loop(condition, body, (jnp.zeros_like(b), b, b, 0))[0]


@case(normal(3, 7), np.array([-1.0, -2.0, -0.5], "float32"))
def beam_search_step(logits, scores):
    logp = nn.log_softmax(logits)
    total = scores[:, None] + logp
    best, flat = lax.top_k(total.ravel(), 3)
    beam, token = flat // logits.shape[1], flat % logits.shape[1]
    return best, beam, token


@case(normal(4, 3), normal(3, 3, seed=1), normal(3, seed=2))
def viterbi(emissions, transitions, start):
    def step(score, emission):
        candidates = score[:, None] + transitions
        return jnp.max(candidates, 0) + emission, jnp.argmax(candidates, 0)

    final, pointers = lax.scan(step, start + emissions[0], emissions[1:])
    last = jnp.argmax(final)

    def back(state, pointer):
        return pointer[state], state

    first, path = lax.scan(back, last, pointers, reverse=True)
    return jnp.concatenate([first[None], path]), final.max()


@case(
    np.abs(normal(3, 3)) + 0.1,
    np.abs(normal(3, 4, seed=1)) + 0.1,
    np.ones(3, "float32") / 3,
    np.array([0, 1, 3, 2], "int32"),
)
def hidden_markov_likelihood(transition, emission, prior, observed):
    transition = transition / transition.sum(1, keepdims=True)
    emission = emission / emission.sum(1, keepdims=True)

    def step(alpha, o):
        alpha = (alpha @ transition) * emission[:, o]
        norm = alpha.sum()
        return alpha / norm, jnp.log(norm)

    _, logs = lax.scan(step, prior, observed)
    return logs.sum()


@case(2.0, 0.5)
def newton_square_root(a, x0):
    def body(x):
        return 0.5 * (x + a / x)

    return lax.fori_loop(0, 6, lambda i, x: body(x), x0)


@case(normal(2), 0.01)
def runge_kutta(y, h):
    def f(y, t):
        return jnp.array([y[1], -y[0] + 0.1 * jnp.sin(t)])

    def step(carry, i):
        y, t = carry
        k1 = f(y, t)
        k2 = f(y + h / 2 * k1, t + h / 2)
        k3 = f(y + h / 2 * k2, t + h / 2)
        k4 = f(y + h * k3, t + h)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return (y, t + h), y

    return lax.scan(step, (y, 0.0), jnp.arange(10))[1]


@case(normal(8, 8))
def game_of_life(noise):
    board = (noise > 0).astype(jnp.int32)

    def step(board, _):
        neighbours = sum(
            jnp.roll(jnp.roll(board, i, 0), j, 1)
            for i in (-1, 0, 1)
            for j in (-1, 0, 1)
            if (i, j) != (0, 0)
        )
        alive = (neighbours == 3) | ((board == 1) & (neighbours == 2))
        return alive.astype(jnp.int32), alive.sum()

    return lax.scan(step, board, None, length=4)


@case(normal(16), 0.1)
def heat_equation(u, r):
    def step(_, u):
        inner = u[1:-1] + r * (u[2:] - 2 * u[1:-1] + u[:-2])
        return u.at[1:-1].set(inner)

    return lax.fori_loop(0, 10, step, u)


@case(normal(12, 3), (normal(12, seed=1) > 0).astype("float32"))
def logistic_regression(x, y):
    def loss(w):
        z = x @ w
        return jnp.mean(jnp.logaddexp(0, z) - y * z) + 0.01 * w @ w

    def step(w, _):
        value, g = jax.value_and_grad(loss)(w)
        return w - 0.5 * g, value

    return lax.scan(step, jnp.zeros(3), None, length=10)


@case(normal(20, 4), normal(20, seed=1))
def ridge_and_residual(x, y):
    gram = x.T @ x + 0.1 * jnp.eye(x.shape[1])
    w = jnp.linalg.solve(gram, x.T @ y)
    residual = y - x @ w
    return w, jnp.sqrt(jnp.mean(residual**2)), residual.std()


@case(normal(6, 4))
def power_iteration(a):
    m = a.T @ a

    def step(_, v):
        v = m @ v
        return v / jnp.linalg.norm(v)

    v = lax.fori_loop(0, 30, step, jnp.ones(4) / 2.0)
    return v @ m @ v


@case(normal(5, 5), normal(5, seed=1))
def hessian_vector_product(a, x):
    def f(x):
        return jnp.sum(jnp.tanh(a @ x) ** 2)

    return jax.jvp(jax.grad(f), (x,), (jnp.ones_like(x),))[1]


@case(normal(3, 4), normal(4, seed=1))
def jacobians(w, x):
    f = lambda x: jnp.sin(w @ x)
    return jax.jacrev(f)(x), jax.jacfwd(f)(x)


@case({"w": normal(4, 3), "b": normal(3, seed=1)}, normal(6, 4, seed=2), whole(6, high=3))
def per_example_gradients(p, xs, ys):
    def loss(p, x, y):
        return -nn.log_softmax(x @ p["w"] + p["b"])[y]

    grads = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(p, xs, ys)
    norms = jnp.sqrt(
        sum(jnp.sum(g.reshape(g.shape[0], -1) ** 2, -1) for g in jax.tree.leaves(grads))
    )
    return norms, jax.tree.map(lambda g: g.mean(0), grads)


@case(normal(4, 3), normal(5, 3, seed=1))
def pairwise_by_vmap(a, b):
    distance = lambda x, y: jnp.sqrt(jnp.sum((x - y) ** 2) + 1e-6)
    return jax.vmap(jax.vmap(distance, (None, 0)), (0, None))(a, b)


@case({"w": normal(6, 6), "b": np.zeros(6, "float32")}, normal(8, 6, seed=1), normal(8, 6, seed=2))
def adam_steps(params, x, y):
    def loss(p):
        return jnp.mean((jnp.tanh(x @ p["w"] + p["b"]) - y) ** 2)

    zeros = jax.tree.map(jnp.zeros_like, params)

    def step(state, i):
        p, m, v = state
        value, g = jax.value_and_grad(loss)(p)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, v, g)
        t = i + 1
        p = jax.tree.map(
            lambda p, m, v: p - 0.01 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8),
            p,
            m,
            v,
        )
        return (p, m, v), value

    (params, _, _), losses = lax.scan(step, (params, zeros, zeros), jnp.arange(5))
    return params, losses


# ---- arrays, indices, control flow, random numbers


@case(whole(10, high=5), normal(10))
def segment_statistics(ids, values):
    counts = jnp.zeros(5).at[ids].add(1)
    sums = jnp.zeros(5).at[ids].add(values)
    largest = jnp.full(5, -jnp.inf).at[ids].max(values)
    return counts, sums / jnp.maximum(counts, 1), largest


@case(normal(6, 6))
def image_filters(x):
    padded = jnp.pad(x, 1, mode="edge")
    blurred = (
        sum(padded[i : i + x.shape[0], j : j + x.shape[1]] for i in range(3) for j in range(3)) / 9
    )
    gy, gx = padded[2:, 1:-1] - padded[:-2, 1:-1], padded[1:-1, 2:] - padded[1:-1, :-2]
    return blurred, jnp.hypot(gx, gy), jnp.arctan2(gy, gx)


@case(normal(7))
def sorting_and_ranks(x):
    order = jnp.argsort(x)
    ranks = jnp.zeros_like(order).at[order].set(jnp.arange(x.shape[0]))
    return (
        x[order],
        ranks,
        jnp.cumsum(x)[::-1],
        jnp.searchsorted(jnp.sort(x), jnp.array([0.0, 0.5])),
        jnp.median(x),
    )


@case(normal(4), 1)
def branches(x, mode):
    squared = lax.switch(mode, [lambda v: v, lambda v: v**2, lambda v: -v], x)
    return lax.cond(
        squared.sum() > 1.0, lambda v: {"out": v / v.sum()}, lambda v: {"out": v}, squared
    )


@case(np.array([7, 12], "uint32"))
def random_samples(key):
    k1, k2, k3 = random.split(key, 3)
    w = random.normal(k1, (3, 4)) * jnp.sqrt(2.0 / 3)
    mask = random.bernoulli(k2, 0.7, (3, 4))
    return (
        jnp.where(mask, w / 0.7, 0.0),
        random.uniform(random.fold_in(k3, 5), (4,), minval=-1.0, maxval=1.0),
        random.randint(k3, (5,), 0, 10),
    )


@case(np.array([1, 2], "uint32"), normal(5), 0.1)
def langevin(key, x, step_size):
    logp = lambda x: -0.5 * jnp.sum(x**2) + jnp.sum(jnp.cos(x))

    def step(carry, _):
        key, x = carry
        key, sub = random.split(key)
        x = (
            x
            + step_size * jax.grad(logp)(x)
            + jnp.sqrt(2 * step_size) * random.normal(sub, x.shape)
        )
        return (key, x), x

    return lax.scan(step, (key, x), None, length=4)[1]


@partial(jax.jit, static_argnames="order")
def moments(x, order):
    return jnp.stack([jnp.mean((x - x.mean()) ** k) for k in range(2, order + 1)])


@case(normal(20))
def nested_jit(x):
    return moments(x, order=4)


@case(normal(9))
def prefix_products(x):
    affine = lambda f, g: (f[0] * g[0], f[1] * g[0] + g[1])
    a, b = lax.associative_scan(affine, (jnp.tanh(x), jnp.ones_like(x)))
    return a, b


@case(normal(3, 5), whole(3, high=5))
def cross_entropy_with_smoothing(logits, labels):
    smooth = nn.one_hot(labels, logits.shape[-1]) * 0.9 + 0.1 / logits.shape[-1]
    loss = -(smooth * nn.log_softmax(logits)).sum(-1)
    accuracy = (jnp.argmax(logits, -1) == labels).mean()
    return loss.mean(), accuracy, jax.nn.logsumexp(logits, axis=-1)


@case(normal(4, 4), normal(4, seed=1))
def checkpointed_stack(w, x):
    layer = jax.checkpoint(lambda x: jnp.sin(w @ x) + x)

    def loss(x):
        for _ in range(3):
            x = layer(x)
        return jnp.sum(x**2)

    return jax.grad(loss)(x)


@case(np.arange(6, dtype="int32"), normal(6))
def dtypes_and_bits(i, x):
    return (
        i / 2,
        i // 2,
        i % 4,
        (i << 1) | 1,
        i * x,
        x.astype(jnp.float16) + 1,
        jnp.float32(2) * i,
        ~(i > 2),
        i**2,
        2**i,
    )


@case(normal(2, 3), normal(2, 3, seed=1))
def vector_jacobian(x, y):
    value, pullback = jax.vjp(lambda a, b: (jnp.sin(a) * b, a.sum()), x, y)
    return value, pullback((jnp.ones((2, 3)), 2.0))


# ---- further functions


@case(normal(6, 5), normal(6, 4, seed=1))
def sinkhorn(x, y):
    cost = jnp.sum((x[:, None, :4] - y[None]) ** 2, -1)
    logk = -cost / 0.5

    def step(carry, _):
        f, g = carry
        f = -jax.nn.logsumexp(logk + g[None, :], axis=1)
        g = -jax.nn.logsumexp(logk + f[:, None], axis=0)
        return (f, g), None

    (f, g), _ = lax.scan(step, (jnp.zeros(6), jnp.zeros(6)), None, length=20)
    return jnp.exp(logk + f[:, None] + g[None, :])


@case(normal(20, 4), normal(20, seed=2))
def kalman(obs, u):
    A = jnp.eye(4) * 0.9
    Q = jnp.eye(4) * 0.1
    R = jnp.eye(4) * 0.5

    def step(c, z):
        m, P = c
        m = A @ m
        P = A @ P @ A.T + Q
        S = P + R
        K = jnp.linalg.solve(S, P).T
        m = m + K @ (z - m)
        P = (jnp.eye(4) - K) @ P
        return (m, P), (m, jnp.trace(P))

    (m, P), hist = lax.scan(step, (jnp.zeros(4), jnp.eye(4)), obs)
    return m, P, hist


@case(normal(3, 9, 5), whole(3, 4, high=4, seed=3))
def alignment_loss(logits, labels):
    logp = jax.nn.log_softmax(logits)

    def per(lp, lab):
        lab = lab + 1

        def step(alpha, lpt):
            stay = alpha + lpt[lab]
            move = jnp.concatenate([jnp.full((1,), -1e30), alpha[:-1]]) + lpt[lab]
            return jnp.logaddexp(stay, move), None

        init = jnp.where(jnp.arange(4) == 0, lp[0, lab[0]], -1e30)
        a, _ = lax.scan(step, init, lp[1:])
        return -a[-1]

    return jnp.mean(jax.vmap(per)(logp, labels))


@case(normal(2, 16, 8), normal(2, 16, 8, seed=1), normal(2, 16, 8, seed=2))
def flash_attention(q, k, v):
    B = 4

    def one(q, k, v):
        kb = k.reshape(-1, B, 8)
        vb = v.reshape(-1, B, 8)

        def step(c, kv):
            o, m, total = c
            kk, vv = kv
            s = q @ kk.T / jnp.sqrt(8.0)
            m2 = jnp.maximum(m, s.max(-1))
            p = jnp.exp(s - m2[:, None])
            a = jnp.exp(m - m2)
            return (o * a[:, None] + p @ vv, m2, total * a + p.sum(-1)), None

        (o, _, total), _ = lax.scan(
            step, (jnp.zeros_like(q), jnp.full((16,), -jnp.inf), jnp.zeros(16)), (kb, vb)
        )
        return o / total[:, None]

    return jax.vmap(one)(q, k, v)


@case(normal(4, 3), normal(8, 3, seed=1))
def normalising_flow(x, w):
    def coupling(x, w):
        a, b = jnp.split(x, [1], axis=-1)
        h = jnp.tanh(a * w[0])
        s, t = jnp.tanh(h * w[1]), h * w[2]
        return jnp.concatenate([b * jnp.exp(s) + t, a], -1), jnp.sum(s * jnp.ones_like(b), -1)

    logdet = 0.0
    for i in range(2):
        x, change = coupling(x, w[i])
        logdet = logdet + change
    return -0.5 * jnp.sum(x**2, -1) + logdet


@case(
    normal(10, 2),
)
def rosenbrock_descent(x):
    f = lambda p: jnp.sum((p[1:] - p[:-1] ** 2) ** 2) + jnp.sum((1 - p) ** 2)
    p = x[:, 0]

    def body(i, c):
        p, _ = c
        gradient = jax.grad(f)(p)
        return p - 0.01 * gradient, gradient

    return lax.fori_loop(0, 15, body, (p, jnp.zeros(10)))


class ChainState(NamedTuple):
    pos: Any
    lp: Any
    acc: Any


@case(np.array([1, 2], "uint32"), normal(3))
def metropolis(key, x0):
    logp = lambda x: -0.5 * jnp.sum(x**2)

    def step(s, k):
        k1, k2 = random.split(k)
        prop = s.pos + 0.5 * random.normal(k1, (3,))
        lp = logp(prop)
        ok = jnp.log(random.uniform(k2)) < lp - s.lp
        new = ChainState(jnp.where(ok, prop, s.pos), jnp.where(ok, lp, s.lp), s.acc + ok)
        return new, new.pos

    s, chain = lax.scan(step, ChainState(x0, logp(x0), 0), random.split(key, 12))
    return s, chain.mean(0)


@case(
    {
        "emb": normal(11, 8),
        "w1": normal(8, 16, seed=1),
        "w2": normal(16, 8, seed=2),
        "q": normal(8, 8, seed=3),
    },
    whole(2, 6, high=11),
)
def alibi_transformer(p, tokens):
    x = p["emb"][tokens]
    slopes = 2.0 ** (-jnp.arange(1, 3))
    dist = jnp.arange(6)[None, :] - jnp.arange(6)[:, None]
    q = (x @ p["q"]).reshape(2, 6, 2, 4)
    s = jnp.einsum("bqhd,bkhd->bhqk", q, q) / 2 + slopes[:, None, None] * dist
    s = jnp.where(dist <= 0, s, jnp.finfo(jnp.float32).min)
    a = jax.nn.softmax(s, -1)
    o = jnp.einsum("bhqk,bkhd->bqhd", a, q).reshape(2, 6, 8)
    h = x + o
    h = h + jax.nn.gelu(h @ p["w1"], approximate=True) @ p["w2"]
    return (h * lax.rsqrt(jnp.mean(h**2, -1, keepdims=True) + 1e-6)) @ p["emb"].T


@case(normal(4, 6), np.float32(0.3))
def vae_elbo(x, beta):
    def enc(x):
        return x[:, :3] * 0.5, jnp.clip(x[:, 3:], -2, 2)

    mu, lv = enc(x)
    eps = random.normal(random.PRNGKey(0), mu.shape)
    z = mu + jnp.exp(0.5 * lv) * eps
    kl = -0.5 * jnp.sum(1 + lv - mu**2 - jnp.exp(lv), axis=-1)
    rec = jnp.sum(binary_cross_entropy(jnp.concatenate([z, z], -1), jax.nn.sigmoid(x)), axis=-1)
    return jnp.mean(rec + beta * kl)


def binary_cross_entropy(logits, labels):
    return jnp.maximum(logits, 0) - logits * labels + jnp.log1p(jnp.exp(-jnp.abs(logits)))


@case(
    normal(5, 5),
)
def matrix_functions(a):
    s = a @ a.T + 5 * jnp.eye(5)
    L = jnp.linalg.cholesky(s)
    inv = jnp.linalg.inv(s)
    det = jnp.linalg.det(s)
    w, v = jnp.linalg.eigh(s)
    return (
        L,
        inv,
        det,
        w,
        jnp.abs(v),
        jnp.linalg.norm(a),
        jnp.linalg.norm(a, axis=0, ord=1),
        jnp.linalg.matrix_power(a, 3),
    )


@case(normal(3, 4, 4, 2), normal(2, 3, 3, 2, seed=1))
def conv_nhwc(x, w):
    y = lax.conv_general_dilated(
        x,
        jnp.transpose(w, (1, 2, 3, 0)),
        (1, 1),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    return lax.reduce_window(y, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4


@case(whole(2, 5, 7, high=250))
def integer_windows(x):
    small = (x - 125).astype(jnp.int8)
    return (
        lax.reduce_window(small, jnp.int8(3), lax.add, (1, 2, 3), (1, 2, 1), "SAME"),
        lax.reduce_window(small, jnp.int8(127), lax.min, (2, 1, 2), (1, 1, 1), "VALID"),
        lax.reduce_window(x.astype(jnp.uint8), jnp.uint8(0), lax.max, (1, 3, 2), (1, 1, 2), "SAME"),
    )


@case(normal(6, 3), whole(6, high=3))
def triplet_and_metrics(x, y):
    d = jnp.sqrt(jnp.maximum(jnp.sum((x[:, None] - x[None]) ** 2, -1), 1e-12))
    same = (y[:, None] == y[None]).astype(jnp.float32)
    pos = jnp.max(d * same, 1)
    neg = jnp.min(jnp.where(same > 0, jnp.inf, d), 1)
    acc = jnp.mean(jnp.argmax(x, -1) == y)
    conf = jnp.zeros((3, 3), jnp.int32).at[y, jnp.argmax(x, -1)].add(1)
    return jnp.mean(nn.relu(pos - neg + 0.2)), acc, conf


@case(
    normal(30),
)
def signal_processing(x):
    k = jnp.array([0.25, 0.5, 0.25])
    sm = jnp.convolve(x, k, mode="same")
    ema = lax.associative_scan(
        lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (jnp.full(30, 0.9), 0.1 * x)
    )[1]
    return (
        sm,
        ema,
        jnp.diff(x, n=2),
        jnp.cumsum(x)[::5],
        jnp.interp(jnp.linspace(0, 29, 10), jnp.arange(30.0), x),
        jnp.histogram(x, bins=5)[0],
    )


@case(
    normal(4, 4),
)
def grid_and_poly(x):
    X, Y = jnp.meshgrid(jnp.arange(4.0), jnp.arange(3.0))
    p = jnp.polyval(jnp.array([1.0, -2.0, 3.0]), x)
    return (
        X + Y,
        p,
        jnp.trapezoid(x, dx=0.5),
        jnp.tril(x),
        jnp.kron(jnp.eye(2), x[:2, :2]),
        jnp.roll(x, 1, 0),
        jnp.rot90(x),
        jnp.outer(x[0], x[1]),
        jnp.vander(x[0], 3),
    )


@case({"w": normal(4, 3), "b": normal(3, seed=1)}, normal(7, 4, seed=2), whole(7, high=3))
def sgd_momentum_training(p, x, y):
    def loss(p):
        lg = x @ p["w"] + p["b"]
        return -jnp.mean(jnp.take_along_axis(nn.log_softmax(lg), y[:, None], axis=1)) + 1e-3 * sum(
            jnp.sum(v**2) for v in jax.tree_util.tree_leaves(p)
        )

    vel = jax.tree_util.tree_map(jnp.zeros_like, p)

    def step(c, _):
        p, v = c
        value, g = jax.value_and_grad(loss)(p)
        v = jax.tree_util.tree_map(lambda a, b: 0.9 * a + b, v, g)
        p = jax.tree_util.tree_map(lambda a, b: a - 0.1 * b, p, v)
        return (p, v), value

    (p, _), ls = lax.scan(step, (p, vel), jnp.arange(10))
    return p, ls


@case(
    normal(8, 8),
)
def orthogonal_factors(a):
    q, r = jnp.linalg.qr(a)
    return (
        jnp.abs(jnp.diag(r)),
        jnp.abs(q @ r - a).max() < 1e-4,
        jnp.linalg.svd(a, compute_uv=False),
    )


@case(whole(3, 7, high=9), normal(9, 4, seed=1))
def tied_softmax_sampling(tokens, emb):
    h = emb[tokens].mean(1)
    logits = h @ emb.T
    top, idx = lax.top_k(logits, 3)
    masked = jnp.where(logits < top[:, -1:], -jnp.inf, logits)
    probs = nn.softmax(masked / 0.7)
    srt = jnp.sort(probs, axis=-1)[:, ::-1]
    cum = jnp.cumsum(srt, -1)
    cut = jnp.sum(cum < 0.9, -1)
    return idx, probs, cut, random.categorical(random.PRNGKey(3), masked)


@case(
    normal(3),
)
def custom_rules(x):
    @jax.custom_vjp
    def ste(x):
        return jnp.round(x)

    ste.defvjp(lambda x: (ste(x), None), lambda r, g: (g,))

    @jax.custom_jvp
    def log1pexp(x):
        return jnp.log1p(jnp.exp(x))

    log1pexp.defjvp(lambda p, t: (log1pexp(p[0]), (1 - 1 / (1 + jnp.exp(p[0]))) * t[0]))
    return jax.grad(lambda x: jnp.sum(ste(x) ** 2))(x), jax.vmap(jax.grad(log1pexp))(x * 50)


@case(normal(12, 3), whole(12, high=5), whole(12, high=5, seed=1))
def message_passing(edges, src, dst):
    agg = jax.ops.segment_sum(edges, dst, num_segments=5)
    mx = jax.ops.segment_max(edges, src, num_segments=5)
    deg = jax.ops.segment_sum(jnp.ones(12), dst, 5)
    return agg / jnp.maximum(deg, 1)[:, None], jnp.where(jnp.isfinite(mx), mx, 0)


@case(
    normal(2, 8, 8, 3),
)
def image_pipeline(x):
    y = jax.image.resize(x, (2, 4, 4, 3), "bilinear")
    y = (y - y.mean((1, 2), keepdims=True)) / (y.std((1, 2), keepdims=True) + 1e-5)
    pat = y.reshape(2, 2, 2, 2, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(2, 4, 12)
    return jnp.pad(pat, ((0, 0), (1, 0), (0, 0)), constant_values=1.0)


@case(
    normal(4),
)
def implicit_root(theta):
    def solve(t):
        def cond(c):
            return jnp.logical_and(c[1] > 1e-6, c[2] < 50)

        def body(c):
            x, _, i = c
            xn = x - (x**3 + x - t) / (3 * x**2 + 1)
            return xn, jnp.abs(xn - x), i + 1

        return lax.while_loop(cond, body, (jnp.float32(0.5), jnp.float32(1.0), 0))

    return jax.vmap(lambda t: solve(t)[0])(theta)


@case(normal(5, 3), normal(3, seed=1))
def functools_style(x, w):
    @partial(jax.jit, static_argnames=("n",))
    def f(x, w, n=2):
        for _ in range(n):
            x = jnp.tanh(x * w)
        return x

    with jax.named_scope("outer"):
        a = f(x, w, n=3)
    return a, jnp.vectorize(jnp.dot, signature="(n),(n)->()")(x, w)


@case(
    normal(6, 4),
)
def reductions_of_all_kinds(x):
    return (
        x.min(),
        x.max(0),
        jnp.ptp(x),
        jnp.median(x, axis=1),
        jnp.quantile(x, 0.25, axis=0),
        jnp.var(x, ddof=1),
        jnp.nanmean(jnp.where(x > 1, jnp.nan, x)),
        jnp.count_nonzero(x > 0),
        jnp.any(x > 2),
        jnp.all(x < 3, axis=0),
        jnp.argmin(x, 1),
        jnp.average(x, weights=jnp.arange(6.0), axis=0),
        jnp.cov(x.T),
        jnp.corrcoef(x.T)[0],
        jnp.percentile(x, 50),
    )


@case(normal(3, 4), normal(4, seed=3))
def hutchinson(a, x):
    f = lambda x: jnp.sum(jnp.sin(a @ x) ** 2)
    keys = random.split(random.PRNGKey(0), 5)

    def one(k):
        v = random.rademacher(k, (4,), dtype=jnp.float32)
        return v @ jax.jvp(jax.grad(f), (x,), (v,))[1]

    return jnp.mean(jax.vmap(one)(keys)), jnp.trace(jax.hessian(f)(x))


@case(
    normal(2, 5, 6),
)
def rnn_cells_bidirectional(x):
    def gru(h, xt):
        z = nn.sigmoid(xt + h)
        r = nn.sigmoid(xt - h)
        n = jnp.tanh(xt * 0.3 + r * h)
        h = (1 - z) * n + z * h
        return h, h

    f = jax.vmap(lambda s: lax.scan(gru, jnp.zeros(6), s)[1])(x)
    b = jax.vmap(lambda s: lax.scan(gru, jnp.zeros(6), s, reverse=True)[1])(x)
    return jnp.concatenate([f, b], -1)


@case(
    normal(16),
)
def switch_and_bits(x):
    i = (jnp.abs(x * 10)).astype(jnp.int32)
    y = jax.vmap(lambda k, v: lax.switch(k % 3, [lambda v: v, lambda v: v * v, lambda v: -v], v))(
        i, x
    )
    return (
        y,
        jnp.bitwise_xor(i, 3),
        jnp.left_shift(i, 1),
        lax.population_count(i),
        lax.select(i > 3, x, -x),
        lax.clamp(-1.0, x, 1.0),
    )


@case(normal(4, 6), normal(4, 6, seed=1))
def losses_and_norms(x, y):
    h = jnp.where(jnp.abs(x - y) < 1, 0.5 * (x - y) ** 2, jnp.abs(x - y) - 0.5)
    cos = jnp.sum(x * y, -1) / (jnp.linalg.norm(x, axis=-1) * jnp.linalg.norm(y, axis=-1))
    kl = jnp.sum(nn.softmax(x) * (nn.log_softmax(x) - nn.log_softmax(y)), -1)
    return (
        h.mean(),
        cos,
        kl,
        nn.standardize(x),
        nn.one_hot(jnp.argmax(x, -1), 6),
        nn.swish(x),
        nn.hard_tanh(x),
        nn.celu(x),
        nn.glu(x),
    )

"""Functions as a user of JAX writes them; only the import lines differ.

`CASES` maps each name to the function and its arguments. `tests/data/traced_functions.npz` has the
results of JAX; `python tests/data/traced_functions.py` writes it with JAX instead of StructIR.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

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

"""The costs of traced functions: tracing, mapped functions, train steps and equal layers.

    python benchmarks/transforms.py            # with JAX beside it, if it is installed
    python benchmarks/transforms.py --quick    # smaller sizes, for a test

`trace` compares `structir.trace` with `BlockBuilder` on the same program. `vmap` compares a mapped
function with the function that is written with the batch axis. `train step` is a decoder block with
its gradient and Adam, one thread. `layers` is the time from trace to first result of a stack of
equal blocks relative to one block; without `--quick`, nothing is read from a cache on disk. Times
are CPU times, medians of alternating runs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

if "--quick" not in sys.argv:  # the tests share a cache
    os.environ["STRUCTIR_CACHE"] = "off"
os.environ["STRUCTIR_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import numpy as np
from rich.console import Console
from rich.table import Table

import structir
import structir.numpy as snp
from processor import processor
from structir import nn
from structir.ir import BlockBuilder, ShapeExpr, Var
from structir.script import R

Params = dict[str, np.ndarray]


def medians(runs: int, *calls: Callable[[], Any]) -> list[float]:
    """Returns the median CPU time of each call, in seconds; the calls alternate."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(runs):
        for call, measured in zip(calls, times, strict=True):
            start = time.process_time()
            call()
            measured.append(time.process_time() - start)
    return [statistics.median(measured) for measured in times]


# ---- the cost of a trace

SPECS = [
    R.Tensor(("n", 64), "float32"),
    R.Tensor((64, 64), "float32"),
    R.Tensor((64,), "float32"),
]


def chain(x: Any, w: Any, b: Any, repeats: int) -> Any:
    """A program of nine ops per repetition."""
    for _ in range(repeats):
        x = x + nn.relu(x @ w + b) * 0.5
        x = x.reshape(x.shape[0], 8, 8).transpose(0, 2, 1).reshape(x.shape[0], 64)
        x = snp.tanh(x)
    return x


def built_chain(repeats: int) -> Any:
    """The same program, emitted op by op."""
    builder = BlockBuilder()
    x, w, b = (Var(name, info) for name, info in zip("xwb", SPECS, strict=True))
    n = x.struct_info.dims[0]
    with builder.function("main", [x, w, b]):
        y: Any = x
        for _ in range(repeats):
            h = builder.emit(R.nn.relu(builder.emit(builder.emit(R.matmul(y, w)) + b)))
            y = builder.emit(y + builder.emit(h * R.const(0.5, "float32")))
            y = builder.emit(R.reshape(y, ShapeExpr((n, 8, 8))))
            y = builder.emit(R.permute_dims(y, [0, 2, 1]))
            y = builder.emit(R.tanh(builder.emit(R.reshape(y, ShapeExpr((n, 64))))))
        builder.emit_func_output(y)
    return builder.get()


def trace_cost(quick: bool) -> tuple[str, float, float]:
    """Returns the times per op of `trace` and of BlockBuilder, in microseconds."""
    repeats = 5 if quick else 100
    traced, built = medians(
        3 if quick else 11,
        lambda: structir.trace(lambda x, w, b: chain(x, w, b, repeats), *SPECS),
        lambda: built_chain(repeats),
    )
    return "us per op", 1e6 * traced / (9 * repeats), 1e6 * built / (9 * repeats)


# ---- mapped functions


def attention(q: Any, k: Any, v: Any) -> Any:
    """Attention of matrices, or of batches of these."""
    return nn.softmax(q @ snp.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5) @ v


def perceptron(x: Any, w: Any, v: Any) -> Any:
    """Two layers."""
    return nn.gelu(x @ w) @ v


def mapped_cost(name: str, function: Any, axes: Any, args: list[Any], runs: int) -> Any:
    """Returns the times of a mapped function and of the batched one, in microseconds."""
    mapped, batched = structir.jit(structir.vmap(function, axes)), structir.jit(function)
    np.testing.assert_allclose(mapped(*args), batched(*args), rtol=1e-4, atol=1e-4)
    times = medians(runs, lambda: mapped(*args), lambda: batched(*args))
    return f"us, vmap of {name}", 1e6 * times[0], 1e6 * times[1]


# ---- a train step


def block_params(width: int, seed: int) -> Params:
    """Returns the weights of a decoder block."""
    rng = np.random.default_rng(seed)
    sizes = {n: (width, width) for n in "qkvo"}
    sizes |= {"up": (width, 4 * width), "down": (4 * width, width)}
    params = {n: (rng.normal(size=s) * s[0] ** -0.5).astype("float32") for n, s in sizes.items()}
    params |= {n: np.ones(width, "float32") for n in ("scale1", "scale2")}
    return params | {n: np.zeros(width, "float32") for n in ("shift1", "shift2")}


def model(numpy: Any, neural: Any) -> Callable[..., Any]:
    """Returns the loss of a stack of decoder blocks, over the functions of a library."""

    def normalised(x: Any, scale: Any, shift: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred / numpy.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + shift

    def block(p: Params, x: Any) -> Any:
        batch, length, width = x.shape
        h = normalised(x, p["scale1"], p["shift1"])
        heads = [
            (h @ p[n]).reshape(batch, length, 4, width // 4).transpose(0, 2, 1, 3) for n in "qkv"
        ]
        scores = numpy.einsum("bhqd,bhkd->bhqk", heads[0], heads[1]) * (width // 4) ** -0.5
        lower = numpy.tril(numpy.ones((length, length), dtype=bool))
        mixed = neural.softmax(numpy.where(lower, scores, -1e9), axis=-1) @ heads[2]
        x = x + mixed.transpose(0, 2, 1, 3).reshape(batch, length, width) @ p["o"]
        h = normalised(x, p["scale2"], p["shift2"])
        return x + neural.gelu(h @ p["up"]) @ p["down"]

    def loss(layers: list[Params], x: Any, y: Any) -> Any:
        for layer in layers:
            x = block(layer, x)
        return ((x - y) ** 2).mean()

    return loss


def train_step(numpy: Any, loss: Any, value_and_grad: Any, tree_map: Any) -> Callable[..., Any]:
    """Returns a step of Adam."""

    def step(params: Any, mean: Any, square: Any, t: Any, x: Any, y: Any) -> Any:
        value, g = value_and_grad(loss)(params, x, y)
        mean = tree_map(lambda m, g: 0.9 * m + 0.1 * g, mean, g)
        square = tree_map(lambda v, g: 0.999 * v + 0.001 * g * g, square, g)

        def update(p: Any, m: Any, v: Any) -> Any:
            return p - 1e-3 * (m / (1 - 0.9**t)) / (numpy.sqrt(v / (1 - 0.999**t)) + 1e-8)

        return tree_map(update, params, mean, square), mean, square, value

    return step


def step_cost(quick: bool) -> tuple[str, float, float | None]:
    """Returns the time of a train step, and that of JAX if it is installed, in milliseconds."""
    width, length = (32, 8) if quick else (256, 128)
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(4, length, width)).astype("float32") for _ in range(2))
    params = [block_params(width, 1)]
    zeros = structir.tree.map(np.zeros_like, params)
    loss = model(snp, nn)
    step = structir.jit(
        train_step(snp, loss, structir.value_and_grad, structir.tree.map),
        donate_argnums=(0, 1, 2),
    )
    copies = [structir.tree.map(np.copy, tree) for tree in (params, zeros, zeros)]
    state = [*step(*copies, np.float32(1), x, y)]

    def run() -> None:
        state[:] = step(*state[:3], np.float32(2), x, y)

    runs = 3 if quick else 21
    if find_spec("jax") is None:
        return "ms, train step", 1e3 * medians(runs, run)[0], None
    import jax

    peer = jax.jit(
        train_step(jax.numpy, model(jax.numpy, jax.nn), jax.value_and_grad, jax.tree.map),
        donate_argnums=(0, 1, 2),
    )
    trees = [jax.tree.map(jax.numpy.array, tree) for tree in (params, zeros, zeros)]
    other = [*peer(*trees, np.float32(1), x, y)]

    def run_peer() -> None:
        other[:] = jax.block_until_ready(peer(*other[:3], np.float32(2), x, y))

    times = medians(runs, run, run_peer)
    np.testing.assert_allclose(float(state[3]), float(other[3]), rtol=1e-4)
    return "ms, train step (JAX)", 1e3 * times[0], 1e3 * times[1]


# ---- equal layers


def cold_time(layers: int, width: int) -> float:
    """Returns the CPU time from trace to first result of a stack of blocks, in seconds."""
    params = [block_params(width, k) for k in range(layers)]
    x = np.random.default_rng(0).normal(size=(2, 32, width)).astype("float32")
    start = time.process_time()
    structir.jit(model(snp, nn))(params, x, 2 * x)
    return time.process_time() - start


def cold_time_of_process(layers: int, width: int) -> float:
    """Returns the same time in a new process."""
    command = [sys.executable, __file__, "--cold", str(layers), str(width)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def layers_cost(quick: bool) -> tuple[str, float, float]:
    """Returns the times for many equal blocks and for one, in seconds, each in a new process; for
    a test, the one in this process."""
    many, width = (4, 32) if quick else (48, 256)
    of_one = cold_time if quick else cold_time_of_process
    return f"s, cold, {many} blocks and 1", cold_time_of_process(many, width), of_one(1, width)


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes, for a test")
    parser.add_argument("--cold", type=int, nargs=2, help="print the cold time of a stack")
    arguments = parser.parse_args()
    if arguments.cold:
        print(cold_time(*arguments.cold))
        return
    quick = arguments.quick
    rng = np.random.default_rng(0)
    size = 8 if quick else 64
    q, k, v = (rng.normal(size=(size, size, 64)).astype("float32") for _ in range(3))
    w = rng.normal(size=(64, 128)).astype("float32") / 8
    runs = 3 if quick else 21
    rows: list[Any] = [trace_cost(quick)]
    rows.append(mapped_cost("attention", attention, 0, [q, k, v], runs))
    rows.append(mapped_cost("two layers", perceptron, (0, None, None), [q, w, w.T.copy()], runs))
    rows += [step_cost(quick), layers_cost(quick)]
    table = Table(title=f"{processor()}, one thread, CPU times")
    for heading in ("figure", "StructIR", "other", "ratio"):
        table.add_column(heading, justify="left" if heading == "figure" else "right")
    for figure, own, other in rows:
        compared = ["-", "-"] if other is None else [f"{other:.3g}", f"{own / other:.2f}"]
        table.add_row(figure, f"{own:.3g}", *compared)
    Console().print(table)


if __name__ == "__main__":
    main()

"""Ragged tensors beside the dense loop over as many elements, torch.nested and JAX.

    python benchmarks/ragged.py [--lengths 32-96] [--rounds 40] [--only softmax]

The rows of the ragged tensor have random lengths in a range: by default short, medium and long
ones. The dense tensor has rows of the mean length, and of 3 elements less: a mean that is a
multiple of a vector has no remainder, which most lengths have. All are views of the same memory:
where arrays are in memory changes times by 20 %. Times are per element. CPU time of one thread, in
random order, medians. torch and JAX are compared where they are installed: torch
with the jagged layout of `torch.nested`, JAX with `segment_sum` and `segment_max` over row numbers.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import structir
from turns import burst

MOST_SECONDS = 1.0  # of all calls of one case by one peer: torch.nested has loops of Python
CASES: dict[str, tuple[str, tuple[int, ...]]] = {
    "exp": ("R.exp(x)", ()),
    "multiply-add": ("R.add(R.multiply(x, x), b)", (16,)),
    "sum": ("R.sum(x, axis=1)", ()),
    "sum-16": ("R.sum(x, axis=1)", (16,)),
    "max": ("R.max(x, axis=1)", ()),
    "mean-64": ("R.mean(x, axis=1)", (64,)),
    "sum of exp": ("R.sum(R.exp(x), axis=1)", ()),
    "difference": ("R.subtract(x, R.max(x, axis=1, keepdims=True))", ()),
    "softmax": ("R.nn.softmax(x, axis=1)", ()),
    "softmax-16": ("R.nn.softmax(x, axis=1)", (16,)),
    "matmul-64": ("R.matmul(x, w)", (64,)),
    "concat": ("R.concat((x, x), axis=1)", ()),
    "concat-16": ("R.concat((x, x), axis=1)", (16,)),
}


def program(body: str, inner: tuple[int, ...], axis: str) -> Any:
    """Compiles one case, with a ragged or a dense axis."""
    sizes = "".join([f", {n}" for n in inner])
    params = [f'x: R.Tensor(("n", "{axis}"{sizes}), "float32")']
    params += ['b: R.Tensor((16,), "float32")'] * ("b)" in body)
    params += ['w: R.Tensor((64, 32), "float32")'] * ("w)" in body)
    text = f"@R.function\ndef main({', '.join(params)}):\n    y = {body}\n    return y\n"
    return structir.compile(structir.parse(text), num_threads=1)["main"]


def torch_calls(x: structir.RaggedArray, others: list[Any]) -> dict[str, Callable[[], Any]]:
    """Returns the cases for torch.nested, where they exist."""
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)
    values, offsets = torch.from_numpy(x.values), torch.from_numpy(x.offsets)
    nested = torch.nested.nested_tensor_from_jagged(values, offsets)
    other = torch.from_numpy(others[0]) if others else None
    return {
        "exp": nested.exp,
        "multiply-add": lambda: nested * nested + other,
        "sum": lambda: nested.sum(dim=1),
        "sum-16": lambda: nested.sum(dim=1),
        "max": lambda: nested.amax(dim=1),
        "mean-64": lambda: nested.mean(dim=1),
        "sum of exp": lambda: nested.exp().sum(dim=1),
        "softmax": lambda: nested.softmax(dim=1),
        "softmax-16": lambda: nested.softmax(dim=1),
        "matmul-64": lambda: nested @ other,
        "concat-16": lambda: torch.cat([nested, nested], dim=1),
    }


def jax_calls(x: structir.RaggedArray, others: list[Any]) -> dict[str, Callable[[], Any]]:
    """Returns the cases for JAX, over row numbers."""
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return {}
    rows, count = len(x), np.maximum(x.row_lengths, 1)
    ids = jnp.asarray(np.repeat(np.arange(rows), x.row_lengths))
    values, arrays = jnp.asarray(x.values), [jnp.asarray(o) for o in others]
    lengths = jnp.asarray(count, "float32").reshape(-1, *[1] * (x.values.ndim - 1))

    def total(v: Any) -> Any:
        return jax.ops.segment_sum(v, ids, rows, indices_are_sorted=True)

    def softmax(v: Any) -> Any:
        powers = jnp.exp(v - jax.ops.segment_max(v, ids, rows, indices_are_sorted=True)[ids])
        return powers / total(powers)[ids]

    functions = {
        "exp": jnp.exp,
        "multiply-add": lambda v: v * v + arrays[0],
        "sum": total,
        "sum-16": total,
        "max": lambda v: jax.ops.segment_max(v, ids, rows, indices_are_sorted=True),
        "mean-64": lambda v: total(v) / lengths,
        "sum of exp": lambda v: total(jnp.exp(v)),
        "softmax": softmax,
        "softmax-16": softmax,
        "matmul-64": lambda v: v @ arrays[0],
    }
    jitted = {name: jax.jit(function) for name, function in functions.items()}
    return {
        name: (lambda f=f: jax.block_until_ready(f(values)))  # type: ignore[misc]
        for name, f in jitted.items()
    }


def measured(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Returns the median CPU time of each call, in interleaved bursts; a slow call is made fewer
    times.

    Some kernels of Linux count the CPU time of other threads, in which JAX computes, at ticks of
    the clock: the time of a single short call is too low.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    turns: dict[str, int] = {}
    for name, call in list(calls.items()):
        try:
            call()
            start = time.process_time()
            call()
            seconds = time.process_time() - start
        except Exception as error:  # not every peer has every case
            print(f"    {name}: {type(error).__name__}: {str(error).splitlines()[0][:90]}")
            del calls[name]
            continue
        turns[name] = max(min(rounds, int(MOST_SECONDS / max(seconds, 1e-6))), 1)
        if seconds > MOST_SECONDS:
            times[name].append(seconds)
            turns[name] = 0
    order = random.Random(0)
    for turn in range(rounds):
        done = {name: turns[name] * turn // rounds for name in calls}
        active = [n for n in calls if turns[n] * (turn + 1) // rounds > done[n]]
        for name in order.sample(active, len(active)):
            times[name].append(burst(calls[name]).cpu)
    return {name: float(np.median(t)) for name, t in times.items() if t}


def compared(
    name: str, lengths: tuple[int, int], elements: int, rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Returns the time of a case by what computes it, and the dense times relative to its own."""
    body, inner = CASES[name]
    rng, mean = np.random.default_rng(0), sum(lengths) // 2
    rows = max(elements // mean // int(np.prod(inner)), 1)
    of_rows = rng.integers(lengths[0], lengths[1] + 1, rows)
    total = int(of_rows.sum())
    memory = rng.standard_normal((max(total, rows * mean), *inner), "float32")
    values = memory[:total]
    x = structir.RaggedArray(values, np.cumsum([0, *of_rows]))
    others = [rng.standard_normal((16,), "float32")] * ("b)" in body)
    others += [rng.standard_normal((64, 32), "float32")] * ("w)" in body)
    ragged_call, dense_call = program(body, inner, "*"), program(body, inner, "m")
    calls: dict[str, Callable[[], Any]] = {"ragged": lambda: ragged_call(x, *others)}
    shares: dict[str, float] = {}
    for size in (mean, mean - 3):
        dense = memory[: rows * size].reshape(rows, size, *inner)
        calls[f"dense {size}"] = lambda dense=dense: dense_call(dense, *others)  # type: ignore[misc]
        shares[f"dense {size}"] = dense.size / values.size  # of elements
    for peer, make in (("torch", torch_calls), ("jax", jax_calls)):
        if name in (peer_calls := make(x, others)):
            calls[peer] = peer_calls[name]
    times = measured(calls, rounds)
    return times, {n: times[n] / share / times["ragged"] for n, share in shares.items()}


def main() -> None:
    """Prints a table of times per element."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=1 << 20)
    parser.add_argument("--lengths", nargs="*", default=["3-40", "32-96", "512-1536"])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # before the peers are imported
        os.environ.setdefault(variable, "1")
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ.setdefault("XLA_FLAGS", flags)
    print("case              lengths      ragged us   dense / ragged             peers / ragged")
    for lengths in options.lengths:
        low, high = map(int, lengths.split("-"))
        for name in CASES:
            if options.only not in name:
                continue
            times, ratios = compared(name, (low, high), options.elements, options.rounds)
            dense = ", ".join([f"{n.split()[1]}: {ratio:.2f}x" for n, ratio in ratios.items()])
            peers = ", ".join(
                [f"{p} {times[p] / times['ragged']:.2f}x" for p in ("torch", "jax") if p in times]
            )
            print(f"{name:16}  {lengths:9}  {times['ragged'] * 1e6:11.1f}   {dense:24}   {peers}")


if __name__ == "__main__":
    main()

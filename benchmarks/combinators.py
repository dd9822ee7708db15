"""Combinators beside JAX's `vmap` and `lax.scan`: CPU time of one call, one thread.

    python benchmarks/combinators.py            # with JAX beside it, if it is installed
    python benchmarks/combinators.py --quick    # smaller sizes and fewer runs, for a test

Both run in one process, in alternation, compiled. A figure is the median CPU time of a call, and
the ratio is that of JAX to StructIR: more than 1.0 is faster than JAX. Results are compared.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

os.environ["STRUCTIR_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import attrs
import numpy as np
from rich.console import Console
from rich.table import Table

import structir
from structir.passes.gradient import gradient

PROGRAMS = """
@R.function(private=True)
def act(x: R.Tensor(("k",), "float32")):
    return R.multiply(R.tanh(x), x)

@R.function(private=True)
def log_add(a: R.Tensor(("k",), "float32"), b: R.Tensor(("k",), "float32")):
    return R.log_add_exp(a, b)

@R.function(private=True)
def compose(f, g):
    a, b = f
    c, d = g
    return (R.multiply(a, c), R.add(R.multiply(b, c), d))

@R.function(private=True)
def softmax(x: R.Tensor(("k",), "float32")):
    e = R.exp(R.subtract(x, R.max(x)))
    return R.divide(e, R.sum(e))

@R.function(private=True)
def row_fold(x: R.Tensor(("k",), "float32"), i: R.Tensor((), "float32")):
    return R.reduce(lambda a, b: R.log_add_exp(a, b), i, x)

@R.function
def elementwise(x: R.Tensor(("n", "k"), "float32")):
    return R.map(act, x)

@R.function
def matvec(x: R.Tensor(("n", "k"), "float32"), w: R.Tensor(("k", "m"), "float32")):
    return R.vmap(lambda a, b: R.tanh(R.matmul(a, b)), in_axes=(0, None))(x, w)

@R.function
def softmax_rows(x: R.Tensor(("n", "k"), "float32")):
    return R.map(softmax, x)

@R.function
def pairwise(x: R.Tensor(("n", "k"), "float32"), y: R.Tensor(("m", "k"), "float32")):
    return R.vmap(
        lambda a, z: R.vmap(lambda b, c: R.sum(R.multiply(b, c)), in_axes=(None, 0))(a, z),
        in_axes=(0, None),
    )(x, y)

@R.function
def inner(x: R.Tensor(("n", "k"), "float32"), y: R.Tensor(("m", "k"), "float32")):
    return R.vmap(
        lambda a, z: R.vmap(lambda b, c: R.matmul(b, c), in_axes=(None, 0))(a, z),
        in_axes=(0, None),
    )(x, y)

@R.function
def total(x: R.Tensor(("n", "k"), "float32"), i: R.Tensor(("k",), "float32")):
    return R.reduce(R.add, i, x)

@R.function
def fold(x: R.Tensor(("n", "k"), "float32"), i: R.Tensor(("k",), "float32")):
    return R.reduce(log_add, i, x)

@R.function
def affine(
    a: R.Tensor(("n", "k"), "float32"), b: R.Tensor(("n", "k"), "float32"),
    i: R.Tensor(("k",), "float32"), j: R.Tensor(("k",), "float32"),
):
    return R.reduce(compose, (i, j), (a, b))

@R.function
def fold_rows(x: R.Tensor(("n", "k"), "float32"), i: R.Tensor(("n",), "float32")):
    return R.vmap(row_fold)(x, i)

@R.function
def loss(x: R.Tensor(("n", "k"), "float32"), w: R.Tensor(("k", "m"), "float32")):
    y = R.vmap(lambda a, b: R.tanh(R.matmul(a, b)), in_axes=(0, None))(x, w)
    return R.sum(R.multiply(y, y))
"""


@attrs.frozen
class Case:
    """One combinator: the function, the axes of its arguments, and the function of JAX."""

    name: str
    function: str
    shapes: tuple[tuple[int, ...], ...]
    peer: Callable[..., Any] | None = None


def jax_functions() -> dict[str, Callable[..., Any]]:
    """Returns the counterparts of the programs in JAX, compiled."""
    import jax
    import jax.numpy as jnp
    from jax import lax, vmap

    def compose(f: Any, g: Any) -> Any:
        return (f[0] * g[0], f[1] * g[0] + g[1]), None

    def layer(x: Any, w: Any) -> Any:
        return vmap(lambda a, b: jnp.tanh(a @ b), in_axes=(0, None))(x, w)

    def softmax(x: Any) -> Any:
        e = jnp.exp(x - x.max())
        return e / e.sum()

    def folded(x: Any, i: Any) -> Any:
        return lax.scan(lambda a, b: (jnp.logaddexp(a, b), None), i, x)[0]

    def pairwise(x: Any, y: Any) -> Any:
        inner = vmap(lambda b, c: (b * c).sum(), in_axes=(None, 0))
        return vmap(inner, in_axes=(0, None))(x, y)

    functions = {
        "elementwise": vmap(lambda x: jnp.tanh(x) * x),
        "matvec": layer,
        "softmax_rows": vmap(softmax),
        "pairwise": pairwise,
        "inner": lambda x, y: vmap(
            lambda a, z: vmap(jnp.dot, in_axes=(None, 0))(a, z), in_axes=(0, None)
        )(x, y),
        "total": lambda x, i: lax.scan(lambda a, b: (a + b, None), i, x)[0],
        "fold": folded,
        "affine": lambda a, b, i, j: lax.scan(compose, (i, j), (a, b))[0],
        "fold_rows": vmap(folded),
        "loss": jax.value_and_grad(lambda x, w: (layer(x, w) ** 2).sum(), argnums=(0, 1)),
    }
    return {name: jax.jit(function) for name, function in functions.items()}


def cases(quick: bool) -> list[Case]:
    """Returns the cases with the shapes of their arguments."""
    n, k = (64, 32) if quick else (1024, 512)
    m = 16 if quick else 256
    return [
        Case("map of an elementwise function", "elementwise", ((n, k),)),
        Case("vmap of a matrix-vector product", "matvec", ((n, k), (k, m))),
        Case("map of softmax", "softmax_rows", ((n, k),)),
        Case("vmap of vmap: inner products", "inner", ((m, 64), (m, 64))),
        Case("vmap of vmap: sums of products", "pairwise", ((m, 64), (m, 64))),
        Case("reduce with add", "total", ((n, k), (k,))),
        Case("reduce with log_add_exp", "fold", ((n // 4, k), (k,))),
        Case("reduce of pairs", "affine", ((n, k), (n, k), (k,), (k,))),
        Case("vmap of reduce", "fold_rows", ((n, m // 2), (n,))),
        Case("gradient of vmap", "loss", ((n, k), (k, m))),
    ]


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """Returns the CPU time of one call."""
    start = time.process_time()
    for _ in range(repeats):
        call()
    return (time.process_time() - start) / repeats


def medians(calls: list[Callable[[], Any]], runs: int) -> list[float]:
    """Returns the median CPU times of calls, which alternate."""
    repeats = [max(1, int(0.02 / max(seconds(call, 1), 1e-7))) for call in calls]
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(runs):
        for call, count, measured in zip(calls, repeats, times, strict=True):
            measured.append(seconds(call, count))
    return [statistics.median(measured) for measured in times]


def flat(value: Any) -> list[Any]:
    """Returns the arrays of a nested tuple."""
    if isinstance(value, tuple | list):
        return [array for field in value for array in flat(field)]
    return [np.asarray(value)]


def measured(case: Case, program: Any, peers: dict[str, Any], runs: int) -> tuple[float, float]:
    """Returns the CPU time of a case, and that of JAX; 0 without JAX."""
    random = np.random.default_rng(0)
    args = [random.normal(size=shape).astype("float32") * 0.1 for shape in case.shapes]
    run = program["loss_adjoint" if case.function == "loss" else case.function]
    calls: list[Callable[[], Any]] = [lambda: run(*args)]
    result = flat(run(*args))
    if peers:
        import jax

        on_device, peer = [jax.device_put(a) for a in args], peers[case.function]
        calls.append(lambda: jax.block_until_ready(peer(*on_device)))
        for a, b in zip(result, flat(peer(*on_device)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)
    own, *others = medians(calls, runs)
    return own, others[0] if others else 0.0


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-jax", action="store_true")
    options = parser.parse_args()
    module = gradient.transform(structir.infer(structir.parse(PROGRAMS)), function="loss")
    program = structir.compile(module)
    has_jax = find_spec("jax") is not None and not options.no_jax
    peers = jax_functions() if has_jax else {}
    table = Table("combinator", "StructIR us", "JAX us", "JAX / StructIR")
    for case in cases(options.quick):
        own, other = measured(case, program, peers, 3 if options.quick else 15)
        ratio = f"{other / own:.2f}" if other else ""
        table.add_row(case.name, f"{own * 1e6:.1f}", f"{other * 1e6:.1f}" if other else "", ratio)
    Console().print(table)


if __name__ == "__main__":
    main()

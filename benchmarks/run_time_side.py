"""Times programs, compiled and in NumPy op by op, one JSON line for each program and size.

Started by `run_time.py`, which sets the number of threads and the path before NumPy is loaded.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import minilm_numpy
import structir
from minilm_program import WEIGHTS, minilm_text
from structir.script import I, R

WIDTH = 384  # of the rows of softmax and layer_norm, as in MiniLM
SHORTEST = 2e-3  # seconds: calls are repeated until one sample takes as long
Array = np.ndarray[Any, np.dtype[Any]]


@I.ir_module
class Programs:
    @R.function
    def relu(
        x: R.Tensor(("n",), "float32"),
        a: R.Tensor(("n",), "float32"),
        b: R.Tensor(("n",), "float32"),
    ):
        return R.nn.relu(x * a + b)

    @R.function
    def gelu_tanh(x: R.Tensor(("n",), "float32")):
        return R.nn.gelu_tanh(x)

    @R.function
    def softmax(x: R.Tensor(("rows", 384), "float32")):
        return R.nn.softmax(x)

    @R.function
    def layer_norm(
        x: R.Tensor(("rows", 384), "float32"),
        gamma: R.Tensor((384,), "float32"),
        beta: R.Tensor((384,), "float32"),
    ):
        return R.nn.layer_norm(x, gamma, beta, axes=-1, epsilon=1e-12)


def relu(x: Array, a: Array, b: Array) -> Array:
    return np.maximum(x * a + b, np.float32(0))


def gelu_tanh(x: Array) -> Array:
    inner = np.float32((2 / np.pi) ** 0.5) * (x + np.float32(0.044715) * (x * x * x))
    return np.float32(0.5) * x * (np.float32(1) + np.tanh(inner))


class Case(NamedTuple):
    """A program at some sizes, in both forms, and what it is called with."""

    program: str
    sizes: str
    compiled: Callable[..., Any]
    numpy: Callable[..., Any]
    arguments: tuple[Any, ...]


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def element_cases(elements: list[int]) -> Iterator[Case]:
    """The small programs; rows are as many as come nearest to the number of elements."""
    own = structir.compile(Programs)
    for n in elements:
        flat = tuple(floats(n, seed=seed) for seed in range(3))
        yield Case("relu(x*a+b)", f"{n:,}", own["relu"], relu, flat)
        yield Case("gelu-tanh", f"{n:,}", own["gelu_tanh"], gelu_tanh, flat[:1])
        x = floats(max(1, round(n / WIDTH)), WIDTH)
        shape = f"{x.shape[0]:,} x {WIDTH}"
        yield Case("softmax", shape, own["softmax"], minilm_numpy.softmax, (x,))
        weights = (floats(WIDTH, seed=1), floats(WIDTH, seed=2))
        norm = minilm_numpy.layer_norm
        yield Case("layer_norm", shape, own["layer_norm"], norm, (x, *weights))


def encoder_cases(batches: list[str]) -> Iterator[Case]:
    """The MiniLM encoder; its time does not depend on its weights, which are random here."""
    if not batches:
        return
    main = structir.compile(structir.parse(minilm_text(), filename="minilm"))["main"]
    weights = {name: floats(*shape) * np.float32(0.02) for name, shape in WEIGHTS.items()}
    values = tuple(weights.values())
    for text in batches:
        batch, seq = map(int, text.split("x"))
        ids = np.random.default_rng(0).integers(0, 30522, (batch, seq))
        yield Case(
            "MiniLM encoder",
            f"batch {batch}, seq {seq}",
            lambda ids, mask: main(ids, mask, *values),
            lambda ids, mask: minilm_numpy.encode(ids, mask, weights),
            (ids, np.ones_like(ids)),
        )


def sample(run: Callable[..., Any], arguments: tuple[Any, ...], calls: int) -> float:
    """Seconds for one call, as the mean over some."""
    start = time.perf_counter()
    for _ in range(calls):
        run(*arguments)
    return (time.perf_counter() - start) / calls


def measure(case: Case, rounds: int) -> dict[str, Any]:
    """Medians of samples in turn, so that other load on the machine meets both alike."""
    pairs = zip(
        _flat(case.compiled(*case.arguments)), _flat(case.numpy(*case.arguments)), strict=True
    )
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4, err_msg=case.program)
    sides = (case.compiled, case.numpy)
    calls = [max(1, int(SHORTEST / sample(run, case.arguments, 1))) for run in sides]
    samples = [
        [sample(run, case.arguments, count) for run, count in zip(sides, calls, strict=True)]
        for _ in range(rounds)
    ]
    compiled, numpy = np.median(samples, axis=0).tolist()
    return {
        "program": case.program,
        "sizes": case.sizes,
        "compiled": compiled,
        "numpy": numpy,
    }


def _flat(result: Any) -> tuple[Array, ...]:
    return result if isinstance(result, tuple) else (result,)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--elements", type=int, nargs="*", default=[])
    parser.add_argument("--batches", nargs="*", default=[], metavar="BATCHxSEQ")
    parser.add_argument("--rounds", type=int, default=1)
    asked = parser.parse_args()
    for cases in (element_cases(asked.elements), encoder_cases(asked.batches)):
        for case in cases:
            print(json.dumps(measure(case, asked.rounds)), flush=True)


if __name__ == "__main__":
    main()

"""Measures the first call of `eager_first` beside the same computation in NumPy.

    python benchmarks/first_call.py

The interpreter serves the call, since compilation is held back. `first` is a call of a new module
in a warm process, `later` a further call at the same sizes. Both are the shortest CPU times of
several, in microseconds, and so is NumPy's. In the first rows, arrays are tiny: the interpreter
takes tens of microseconds for each op, and NumPy one.
"""

import argparse
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

import structir
from structir.ir import IRModule
from structir.runtime.eager import EagerExecutable

Array = Any


class Case(NamedTuple):
    """A program, its arguments, and the same computation in NumPy."""

    name: str
    module: IRModule
    args: list[Array]
    numpy: Callable[..., Array]


def program(sizes: dict[str, str], lines: list[str]) -> IRModule:
    """Returns a program of tensors of float32; its result is that of the last line."""
    params = ", ".join([f'{name}: R.Tensor(({s},), "float32")' for name, s in sizes.items()])
    body = "".join([f"    {line}\n" for line in lines])
    result = lines[-1].partition(" = ")[0]
    return structir.parse(f"@R.function\ndef main({params}):\n{body}    return {result}\n")


def floats(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape, np.float32) * np.float32(0.3)


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def layer_norm(x: Array, scale: Array, shift: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred / np.sqrt(variance + np.float32(1e-5)) * scale + shift


def gelu(x: Array) -> Array:
    inner = np.float32(0.7978845608) * (x + np.float32(0.044715) * x * x * x)
    return np.float32(0.5) * x * (1 + np.tanh(inner))


def convolution(x: Array, weight: Array) -> Array:
    """Computes a 3 x 3 convolution with a border of zeros, as a matrix product of windows."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = sliding_window_view(padded, (3, 3), (2, 3)).transpose(0, 2, 3, 1, 4, 5)
    images, height, width = windows.shape[:3]
    columns = windows.reshape(images * height * width, -1)
    product = columns @ weight.reshape(len(weight), -1).T
    return product.reshape(images, height, width, -1).transpose(0, 3, 1, 2)


def perceptron(rows: int) -> Case:
    sizes = {"x": '"n", 32', "w": "32, 64", "b": "64", "v": "64, 10", "c": "10"}
    lines = ["h = R.nn.relu(R.add(R.matmul(x, w), b))", "y = R.add(R.matmul(h, v), c)"]
    args = [floats(rows, 32), floats(32, 64), floats(64), floats(64, 10), floats(10)]
    return Case(
        f"perceptron, {rows} rows",
        program(sizes, lines),
        args,
        lambda x, w, b, v, c: np.maximum(x @ w + b, 0) @ v + c,
    )


def encoder(tokens: int) -> Case:
    weights = ["q", "k", "v", "o"]
    sizes = {"x": f"{tokens}, 64", **{f"w{name}": "64, 64" for name in weights}}
    sizes |= {"g": "64", "b": "64", "up": "64, 256", "down": "256, 64"}
    lines = [
        f"{n} = R.permute_dims(R.reshape(R.matmul(x, w{n}), ({tokens}, 4, 16)), [1, 0, 2])"
        for n in "qkv"
    ]
    lines += [
        "t = R.permute_dims(k, [0, 2, 1])",
        's = R.nn.softmax(R.multiply(R.matmul(q, t), R.const(0.25, "float32")))',
        f"a = R.reshape(R.permute_dims(R.matmul(s, v), [1, 0, 2]), ({tokens}, 64))",
        "y = R.nn.layer_norm(R.add(x, R.matmul(a, wo)), g, b, axes=[-1])",
        "h = R.matmul(R.nn.gelu_tanh(R.matmul(y, up)), down)",
        "z = R.nn.layer_norm(R.add(y, h), g, b, axes=[-1])",
    ]

    def by_numpy(x: Array, wq: Array, wk: Array, wv: Array, wo: Array, *rest: Array) -> Array:
        scale, shift, up, down = rest
        q, k, v = [(x @ w).reshape(tokens, 4, 16).transpose(1, 0, 2) for w in (wq, wk, wv)]
        heads = softmax(q @ k.transpose(0, 2, 1) * np.float32(0.25)) @ v
        y = layer_norm(x + heads.transpose(1, 0, 2).reshape(tokens, 64) @ wo, scale, shift)
        return layer_norm(y + gelu(y @ up) @ down, scale, shift)

    args = [floats(tokens, 64), *[floats(64, 64) for _ in weights]]
    args += [floats(64), floats(64), floats(64, 256), floats(256, 64)]
    return Case(f"encoder layer, {tokens} tokens", program(sizes, lines), args, by_numpy)


def convolutions(side: int) -> Case:
    sizes = {"x": f"1, 3, {side}, {side}", "w": "16, 3, 3, 3", "v": "32, 16, 3, 3"}
    lines = [
        "a = R.nn.relu(R.nn.conv2d(x, w, padding=[1, 1, 1, 1]))",
        "b = R.nn.relu(R.nn.conv2d(a, v, padding=[1, 1, 1, 1]))",
        "m = R.mean(b, axis=[2, 3])",
    ]

    def by_numpy(x: Array, w: Array, v: Array) -> Array:
        hidden = np.maximum(convolution(x, w), 0)
        return np.maximum(convolution(hidden, v), 0).mean((2, 3))

    args = [floats(1, 3, side, side), floats(16, 3, 3, 3), floats(32, 16, 3, 3)]
    return Case(f"convolutions, {side} x {side}", program(sizes, lines), args, by_numpy)


def elementwise(count: int) -> Iterator[Case]:
    vectors = {name: '"n"' for name in "xab"}
    chain = program(vectors, ["p = R.multiply(x, a)", "s = R.add(p, b)", "y = R.nn.relu(s)"])
    args = [floats(count) for _ in vectors]
    yield Case(f"relu(x*a+b), {count}", chain, args, lambda x, a, b: np.maximum(x * a + b, 0))
    yield Case(f"gelu, {count}", program({"x": '"n"'}, ["y = R.nn.gelu_tanh(x)"]), args[:1], gelu)
    silu = program({"x": '"n"'}, ["y = R.nn.silu(x)"])
    yield Case(f"silu, {count}", silu, args[:1], lambda x: x / (1 + np.exp(-x)))


def rows(count: int, width: int) -> Iterator[Case]:
    x = floats(count, width)
    sizes = {"x": '"n", "m"'}
    shape = f"{count} x {width}"
    yield Case(f"softmax, {shape}", program(sizes, ["y = R.nn.softmax(x)"]), [x], softmax)
    normed = program({**sizes, "g": '"m"', "b": '"m"'}, ["y = R.nn.layer_norm(x, g, b, axes=[-1])"])
    args = [x, floats(width), floats(width)]
    yield Case(f"layer_norm, {shape}", normed, args, layer_norm)
    sort = program(sizes, ["y = R.sort(x, axis=1)"])
    yield Case(f"sort, {shape}", sort, [x], lambda x: np.sort(x, 1))


def cases(large: bool) -> Iterator[Case]:
    yield perceptron(8192 if large else 4)
    yield encoder(512 if large else 8)
    yield convolutions(96 if large else 8)
    yield from elementwise(1_000_000 if large else 10)
    yield from rows(*((1000, 1000) if large else (1, 10)))


def held(module: IRModule) -> Callable[..., Any]:
    """Returns a function whose calls stay on the interpreter."""
    waiting = threading.Event()
    executable = EagerExecutable(module, waiting.wait)  # type: ignore[arg-type]
    HELD.append(waiting)
    function: Callable[..., Any] = executable["main"]
    return function


HELD: list[threading.Event] = []


def seconds(run: Callable[..., Any], args: list[Array]) -> float:
    start = time.process_time()
    run(*args)
    return time.process_time() - start


def figures(case: Case, rounds: int) -> tuple[float, float, float]:
    """Returns the shortest times of NumPy, of a first call and of a later one."""
    text = case.module.script()
    expected = case.numpy(*case.args)
    np.testing.assert_allclose(held(case.module)(*case.args), expected, 2e-3, 2e-3)
    times: list[list[float]] = [[], [], []]
    for _ in range(rounds):
        run = held(structir.parse(text))
        times[1].append(seconds(run, case.args))
        for _ in range(3):
            times[2].append(seconds(run, case.args))
            times[0].append(seconds(case.numpy, case.args))
    by_numpy, first, later = [min(column) for column in times]
    return by_numpy, first, later


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="a part of the names of the cases to measure")
    options = parser.parse_args()
    print(
        f"{'case':30}"
        + "".join(
            [f"{c:>12}" for c in ("NumPy us", "first us", "later us", "first/NumPy", "later/NumPy")]
        )
    )
    try:
        for case in [*cases(large=False), *cases(large=True)]:
            if options.only in case.name:
                by_numpy, first, later = figures(case, options.rounds)
                times = [f"{1e6 * s:12.0f}" for s in (by_numpy, first, later)]
                ratios = [f"{s / by_numpy:12.2f}" for s in (first, later)]
                print(f"{case.name:30}" + "".join([*times, *ratios]), flush=True)
    finally:
        for waiting in HELD:
            waiting.set()


if __name__ == "__main__":
    main()

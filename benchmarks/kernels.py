"""Measures single ops and fused patterns against ONNX Runtime, each on one thread, in turn.

    python benchmarks/kernels.py [PART OF A NAME ...]

A case is written twice: as StructIR text, and as a list of ONNX nodes; both must agree first.
Weights are constants on both sides.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

LIBRARIES = ("OPENBLAS", "MKL", "OMP", "NUMBA", "VECLIB")
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in LIBRARIES}
if not ONE_THREAD.items() <= os.environ.items():  # libraries read it when they are loaded
    os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ONE_THREAD)

import attrs  # noqa: E402
import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

import structir  # noqa: E402

Array = np.ndarray[Any, np.dtype[Any]]
Node = tuple[str, tuple[str, ...], dict[str, Any]]


@attrs.frozen
class Case:
    """A computation of `x0`, `x1`... and constants, in both languages; each line makes the next
    of `t0`, `t1`..., and the last is the result."""

    name: str
    lines: list[str]
    nodes: list[Node]
    inputs: list[tuple[int, ...]]
    constants: dict[str, Array] = attrs.Factory(dict)
    flops: float = 0


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def node(kind: str, *inputs: str, **attributes: Any) -> Node:
    return kind, inputs, attributes


def products() -> Iterator[Case]:
    sizes = [(128, 1536, 384), (128, 384, 1536), (512, 512, 512), (1024, 1024, 1024)]
    for m, n, k in [*sizes, (128, 1024, 4096), (16, 1536, 384), (1, 384, 384), (1, 4096, 4096)]:
        weight, flops = {"w": floats(k, n)}, 2.0 * m * n * k
        name, inputs = f"matmul {m}x{n}x{k}", [(m, k)]
        lines, nodes = ["R.matmul(x0, w)"], [node("MatMul", "x0", "w")]
        yield Case(name, lines, nodes, inputs, weight, flops)
    m, n, k = sizes[0]
    weights = {"w": floats(k, n), "b": floats(n)}
    lines = ["R.matmul(x0, w)", "t0 + b", "R.nn.gelu(t1)"]
    nodes = [node("MatMul", "x0", "w"), node("Add", "t0", "b"), node("Gelu", "t1")]
    yield Case(f"linear gelu {m}x{n}x{k}", lines, nodes, [(m, k)], weights, 2.0 * m * n * k)


def attentions() -> Iterator[Case]:
    for s in (128, 512):
        for d in (32, 64):
            scale = {"c": np.float32(d**-0.5)}
            lines = ["R.permute_dims(x1, axes=[0, 2, 1])", "R.matmul(x0, t0)", "t1 * c"]
            lines += ["R.nn.softmax(t2)", "R.matmul(t3, x2)"]
            nodes = [node("Transpose", "x1", perm=[0, 2, 1]), node("MatMul", "x0", "t0")]
            nodes += [node("Mul", "t1", "c"), node("Softmax", "t2"), node("MatMul", "t3", "x2")]
            inputs = [(12, s, d)] * 3
            yield Case(f"attention S{s} D{d}", lines, nodes, inputs, scale, 48.0 * s * s * d)


def convolutions() -> Iterator[Case]:
    forms = [
        ("3x3 64", (1, 64, 56, 56), (64, 64, 3, 3), 1, 1, 1),
        ("depthwise 3x3", (1, 64, 56, 56), (64, 1, 3, 3), 1, 1, 64),
        ("1x1 64", (1, 64, 56, 56), (64, 64, 1, 1), 1, 0, 1),
        ("7x7 s2 stem", (1, 3, 224, 224), (64, 3, 7, 7), 2, 3, 1),
        ("3x3 s2 128", (1, 64, 56, 56), (128, 64, 3, 3), 2, 1, 1),
        ("3x3 256 14x14", (1, 256, 14, 14), (256, 256, 3, 3), 1, 1, 1),
        ("3x3 512 7x7", (1, 512, 7, 7), (512, 512, 3, 3), 1, 1, 1),
    ]
    for name, shape, kernel, stride, pad, groups in forms:
        weights = {"w": floats(*kernel), "b": floats(1, kernel[0], 1, 1)}
        conv = f"R.nn.conv2d(x0, w, strides={stride}, padding={pad}, groups={groups})"
        nodes = [
            node("Conv", "x0", "w", strides=[stride] * 2, pads=[pad] * 4, group=groups),
            node("Add", "t0", "b"),
            node("Relu", "t1"),
        ]
        size = (shape[2] + 2 * pad - kernel[2]) // stride + 1
        flops = 2.0 * np.prod(kernel) * size * size
        yield Case(
            f"conv {name}", [conv, "t0 + b", "R.nn.relu(t1)"], nodes, [shape], weights, flops
        )


def pools() -> Iterator[Case]:
    lines = ["R.nn.max_pool2d(x0, pool_size=3, strides=2, padding=1)"]
    nodes = [node("MaxPool", "x0", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)]
    yield Case("max_pool 3x3 s2", lines, nodes, [(1, 64, 112, 112)])
    lines, nodes = ["R.mean(x0, axis=[2, 3])"], [node("ReduceMean", "x0", "axes", keepdims=0)]
    yield Case("global average", lines, nodes, [(1, 512, 7, 7)], {"axes": np.array([2, 3])})


def rows() -> Iterator[Case]:
    for total in (1000, 100_000, 10_000_000):
        for width in (384,) if total != 100_000 else (384, 100, 16, 8, 4):
            shape = [(max(1, total // width), width)]
            at = f"{total:,} in rows of {width}"
            yield Case(f"softmax {at}", ["R.nn.softmax(x0)"], [node("Softmax", "x0")], shape)
            weights = {"g": floats(width), "b": floats(width, seed=1)}
            lines = ["R.nn.layer_norm(x0, g, b, axes=[-1])"]
            nodes = [node("LayerNormalization", "x0", "g", "b", epsilon=1e-5)]
            yield Case(f"layer_norm {at}", lines, nodes, shape, weights)
            axis = {"axes": np.array([1])}
            nodes = [node("ReduceSum", "x0", "axes", keepdims=0)]
            yield Case(f"sum {at}", ["R.sum(x0, axis=[1])"], nodes, shape, axis)


def maps() -> Iterator[Case]:
    for total in (1000, 100_000, 10_000_000):
        shape, at = [(total,)], f"{total:,}"
        tanh = [node("Gelu", "x0", approximate="tanh")]
        yield Case(f"gelu-tanh {at}", ["R.nn.gelu_tanh(x0)"], tanh, shape)
        yield Case(f"gelu-erf {at}", ["R.nn.gelu(x0)"], [node("Gelu", "x0")], shape)
        yield Case(f"exp {at}", ["R.exp(x0)"], [node("Exp", "x0")], shape)
        silu = [node("Sigmoid", "x0"), node("Mul", "x0", "t0")]
        yield Case(f"silu {at}", ["R.sigmoid(x0)", "x0 * t0"], silu, shape)
        chain = [node("Mul", "x0", "x1"), node("Add", "t0", "x2"), node("Relu", "t1")]
        lines = ["x0 * x1", "t0 + x2", "R.nn.relu(t1)"]
        yield Case(f"relu(x*a+b) {at}", lines, chain, shape * 3)


def moves() -> Iterator[Case]:
    shape = [(1000, 1000)]
    lines, nodes = ["R.permute_dims(x0)"], [node("Transpose", "x0")]
    yield Case("transpose 1000x1000", lines, nodes, shape)
    lines, nodes = ["R.concat((x0, x1), axis=1)"], [node("Concat", "x0", "x1", axis=1)]
    yield Case("concat 1000x1000 axis 1", lines, nodes, shape * 2)


FAMILIES = (products, attentions, convolutions, pools, rows, maps, moves)


def compiled(case: Case) -> Callable[..., Any]:
    """The case by StructIR, first sizes symbolic where it is no convolution."""
    params = [f'x{k}: R.Tensor({_sizes(shape)}, "float32")' for k, shape in enumerate(case.inputs)]
    own = [f'{name} = metadata["{name}"]' for name in case.constants if name != "axes"]
    own += [f"t{k} = {line}" for k, line in enumerate(case.lines)]
    last = f"t{len(case.lines) - 1}"
    body = "".join(f"\n        {line}" for line in [*own, f"R.output({last})"])
    head = f"@R.function\ndef main({', '.join(params)}):\n    with R.dataflow():"
    text = f"{head}{body}\n    return {last}\n"
    found: Callable[..., Any] = structir.compile(
        structir.parse(text, constants={k: np.asarray(v) for k, v in case.constants.items()}),
        num_threads=1,
    )["main"]
    return found


def _sizes(shape: tuple[int, ...]) -> str:
    if len(shape) == 4:
        return str(shape)
    symbolic = {1: ["n"], 2: ["n"], 3: ["b", "n"]}[len(shape)]
    known = [repr(s) for s in symbolic] + [str(d) for d in shape[len(symbolic) :]]
    return f"({', '.join(known)},)"


def by_onnxruntime(case: Case) -> Callable[..., Any]:
    """The case by ONNX Runtime, all of its own fusions on."""
    made = [
        helper.make_node(kind, list(inputs), [f"t{k}"], **attributes)
        for k, (kind, inputs, attributes) in enumerate(case.nodes)
    ]
    inputs = [
        helper.make_tensor_value_info(f"x{k}", TensorProto.FLOAT, shape)
        for k, shape in enumerate(case.inputs)
    ]
    result = helper.make_tensor_value_info(f"t{len(made) - 1}", TensorProto.FLOAT, None)
    held = [numpy_helper.from_array(np.asarray(v), name) for name, v in case.constants.items()]
    graph = helper.make_graph(made, "case", inputs, [result], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [f"x{k}" for k in range(len(case.inputs))]
    return lambda *args: session.run(None, dict(zip(names, args, strict=True)))[0]


def sample(run: Callable[..., Any], arguments: list[Array], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        run(*arguments)
    return (time.perf_counter() - start) / calls


def measure(case: Case, rounds: int, shortest: float) -> dict[str, Any]:
    """Medians of samples in turn, so that other load on the machine meets both alike."""
    arguments = [floats(*shape, seed=k) for k, shape in enumerate(case.inputs)]
    sides = compiled(case), by_onnxruntime(case)
    own, other = (run(*arguments) for run in sides)
    np.testing.assert_allclose(own, other, rtol=1e-3, atol=1e-3 * np.abs(other).max(initial=1e-3))
    calls = [max(1, int(shortest / sample(run, arguments, 1))) for run in sides]
    samples = [
        [sample(run, arguments, count) for run, count in zip(sides, calls, strict=True)]
        for _ in range(rounds)
    ]
    ours, theirs = np.median(samples, axis=0).tolist()
    best = np.min(samples, axis=0).tolist()
    times = {"own": ours, "onnxruntime": theirs, "own_best": best[0], "onnxruntime_best": best[1]}
    return {"case": case.name, **times, "flops": case.flops}


def table_of(rows: list[dict[str, Any]], rounds: int) -> Table:
    caption = f"float32, one thread; medians, and best, of {rounds} samples in turn"
    table = Table("case", title="Kernels and ONNX Runtime", caption=caption)
    for column in ("compiled, us", "GFLOP/s", "ONNX Runtime, us", "times as fast", "best"):
        table.add_column(column, justify="right")
    for row in rows:
        speed = f"{row['flops'] / row['own'] / 1e9:.0f}" if row["flops"] else ""
        times = [f"{row[side] * 1e6:.1f}" for side in ("own", "onnxruntime")]
        ratio = f"{row['onnxruntime'] / row['own']:.2f}"
        best = f"{row['onnxruntime_best'] / row['own_best']:.2f}"
        table.add_row(row["case"], times[0], speed, times[1], ratio, best)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="only cases whose name has one of these in it")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.02, help="of one sample, at least")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    asked = parser.parse_args()
    rows = []
    for case in [case for family in FAMILIES for case in family()]:
        if not asked.names or any(name in case.name for name in asked.names):
            rows.append(measure(case, asked.rounds, asked.seconds))
    Console(width=100).print(table_of(rows, asked.rounds))
    if asked.json:
        asked.json.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Measures calls at new sizes, and a loop whose cache grows, of StructIR and of ONNX Runtime.

    python benchmarks/new_sizes.py

Both sides run the same ONNX models on one thread. `known` is the time of a call at a size that
occurred before, `new` the additional time of the first call at a size: the shortest of all sizes
for each. The last rows are whole loops, in which each iteration has a new size.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from rich.console import Console
from rich.table import Table

import structir
from processor import processor
from structir.frontend.onnx import from_onnx

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Array = Any
Model = Any
Shapes = Callable[[int], list[tuple[int, ...]]]


def value(name: str, shape: Any, kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any], **constants: Array) -> Model:
    stored = [
        helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape, a.ravel())
        for name, a in constants.items()
    ]
    graph = helper.make_graph(nodes, "case", inputs, outputs, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def layers(count: int) -> Model:
    nodes = []
    for k in range(count):
        nodes += [node("MatMul", f"t{k} w", f"m{k}"), node("Relu", f"m{k}", f"t{k + 1}")]
    inputs = [value("t0", ["n", 8]), value("w", [8, 8])]
    return model(nodes, inputs, [value(f"t{count}", None)])


def branch() -> Model:
    sides = [
        helper.make_graph(nodes, name, [], [value("r", None)])
        for name, nodes in {
            "one": [node("Exp", "h", "r")],
            "other": [node("MatMul", "h w", "r")],
        }.items()
    ]
    nodes = [
        node("MatMul", "x w", "h"),
        node("ReduceMax", "h", "m", keepdims=0),
        node("Greater", "m limit", "c"),
        node("If", "c", "s", then_branch=sides[0], else_branch=sides[1]),
        node("Softmax", "s", "y", axis=-1),
    ]
    inputs = [value("x", ["n", 8]), value("w", [8, 8])]
    return model(nodes, inputs, [value("y", None)], limit=np.float32(1).reshape(()))


def recurrent() -> Model:
    nodes = [node("GRU", "x w r", "y h", hidden_size=4)]
    inputs = [value("x", [8, "n", 4]), value("w", [1, 12, 4]), value("r", [1, 12, 4])]
    return model(nodes, inputs, [value("y", None), value("h", None)])


def cases() -> Iterator[tuple[str, Model, Shapes]]:
    vector, matrix = [value(n, ["n"]) for n in "xab"], [value("x", ["n", 8]), value("w", [8, 8])]
    nodes = [node("Mul", "x a", "m"), node("Add", "m b", "s"), node("Relu", "s", "y")]
    yield "relu(x*a+b)", model(nodes, vector, [value("y", None)]), lambda n: [(n,)] * 3
    yield "4 layers", layers(4), lambda n: [(n, 8), (8, 8)]
    yield "50 layers", layers(50), lambda n: [(n, 8), (8, 8)]
    joined = [value("x", ["n", 6]), value("z", ["m", 6])]
    concat = model([node("Concat", "x z", "y", axis=0)], joined, [value("y", None)])
    yield "concat", concat, lambda n: [(n, 6), (n + 1, 6)]
    dims = [value("x", ["n", "k"]), value("z", ["k", "m"])]
    nodes = [node("MatMul", "x z", "p"), node("Softmax", "p", "y", axis=-1)]
    yield "two dims", model(nodes, dims, [value("y", None)]), lambda n: [(n, 8), (8, n + 3)]
    heads = [value("q", ["n", 16]), value("k", [16, "m"]), value("v", ["m", 16])]
    nodes = [node("MatMul", "q k", "s"), node("Softmax", "s", "a"), node("MatMul", "a v", "y")]
    attention = model(nodes, heads, [value("y", None)])
    yield "attention", attention, lambda n: [(n, 16), (16, n + 2), (n + 2, 16)]
    image = [value("x", [1, 3, "h", "v"]), value("k", [4, 3, 3, 3])]
    nodes = [node("Conv", "x k", "c", pads=[1] * 4), node("Relu", "c", "y")]
    yield (
        "conv 3 x 3",
        model(nodes, image, [value("y", None)]),
        lambda n: [(1, 3, n, n + 1), (4, 3, 3, 3)],
    )
    nodes = [
        node("LayerNormalization", "x g c", "l"),
        node("MatMul", "l w", "m"),
        node("Tanh", "m", "t"),
        node("Add", "t x", "y"),
    ]
    normed = [*matrix, value("g", [8]), value("c", [8])]
    norm = model(nodes, normed, [value("y", None)])
    yield "norm and a layer", norm, lambda n: [(n, 8), (8, 8), (8,), (8,)]
    yield "branch", branch(), lambda n: [(n, 8), (8, 8)]
    yield "recurrent", recurrent(), lambda n: [(8, n, 4), (1, 12, 4), (1, 12, 4)]


def decoder(hidden: int) -> Model:
    """A greedy decoder that appends a token to ids, and a row to a cache of unknown length."""
    nodes = [
        node("Gather", "ids last", "id"),
        node("Gather", "table id", "e"),
        node("Concat", "cache e", "cache2", axis=0),
        node("Transpose", "cache2", "keys", perm=[1, 0]),
        node("MatMul", "e keys", "s"),
        node("Softmax", "s", "a", axis=-1),
        node("MatMul", "a cache2", "o"),
        node("MatMul", "o head", "logits"),
        node("ArgMax", "logits", "next", axis=1, keepdims=0),
        node("Concat", "ids next", "ids2", axis=0),
        node("Identity", "go", "go2"),
    ]
    ins = [value("i", [], INT64), value("go", [], BOOL), value("ids", None, INT64)]
    outs = [value("go2", None, BOOL), value("ids2", None, INT64), value("cache2", None)]
    body = helper.make_graph(nodes, "body", [*ins, value("cache", None)], outs)
    inputs = [
        *(value("trips", [], INT64), value("ids0", ["t"], INT64), value("cache0", ["t", hidden])),
        *(value("table", ["v", hidden]), value("head", [hidden, "v"])),
    ]
    loop = node("Loop", "trips on ids0 cache0", "ids9 cache9", body=body)
    outputs = [value("ids9", ["p"], INT64), value("cache9", None)]
    return model([loop], inputs, outputs, on=np.array(True), last=np.array([-1]))


def floats(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape, np.float32) * np.float32(0.3)


def sides(case: Model) -> list[Callable[..., Any]]:
    """Returns StructIR and ONNX Runtime, as functions of arrays."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(case.SerializeToString(), options)
    names = [i.name for i in session.get_inputs()]
    own = structir.compile(from_onnx(case), num_threads=1)["main"]
    return [own, lambda *args: session.run(None, dict(zip(names, args, strict=True)))]


def seconds(run: Callable[..., Any], args: list[Array]) -> float:
    start = time.perf_counter()
    run(*args)
    return time.perf_counter() - start


def new_and_known(run: Callable[..., Any], shapes: Shapes, sizes: range) -> tuple[float, float]:
    """Returns the additional time of a new size, and the time of a known one."""
    extra, known = [], []
    for n in sizes:
        args = [floats(*shape) for shape in shapes(n)]
        first = seconds(run, args)
        known.append(min([seconds(run, args) for _ in range(8)]))
        extra.append(first - known[-1])
    return min(extra), min(known)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, default=60)
    count = parser.parse_args().sizes
    table = Table(title=f"microseconds on {processor()}, one thread")
    for column in ("program", "StructIR known", "new", "ONNX Runtime known", "new"):
        table.add_column(column)
    for name, case, shapes in cases():
        figures = []
        for run in sides(case):
            for n in (2, 3, 4, 5):
                run(*[floats(*shape) for shape in shapes(n)])
            extra, known = new_and_known(run, shapes, range(8, 8 + count))
            figures += [known, extra]
        table.add_row(name, *[f"{1e6 * s:.2g}" for s in figures])
    for hidden, words, trips in ((4, 9, 32), (64, 256, 32), (64, 256, 100)):
        args = [np.asarray(trips), np.arange(3), floats(3, hidden)]
        args += [floats(words, hidden), floats(hidden, words)]
        both = sides(decoder(hidden))
        results = [run(*args)[0] for run in both]
        np.testing.assert_array_equal(*results)
        own, peer = [min([seconds(run, args) for _ in range(count)]) for run in both]
        what = f"decoder of width {hidden}, {trips} tokens"
        table.add_row(what, f"{1e6 * own:.0f}", "", f"{1e6 * peer:.0f}", "")
    Console().print(table)


if __name__ == "__main__":
    main()

"""Measures the speed-up of threads, of StructIR and of ONNX Runtime, op by op.

    python benchmarks/threads.py --threads 2

Wall-clock time, in short interleaved bursts with a pause before each, so that the idle threads of
one side are asleep while the other runs; the shortest time of a call counts. `default` is a
decode step with the default number of threads beside one thread.

The second table has one and eight Python threads that call one executable, or two, with one thread
each: calls per second, and the processor time of a call, which a loaded machine changes less.
"""

import argparse
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from rich.console import Console
from rich.table import Table

import structir
from processor import processor
from structir.ir import IRModule

PAUSE = 0.003  # seconds: longer than idle threads spin
CALLS = 5  # calls of a burst
Array = Any


@attrs.frozen
class Case:
    """One program on both sides: an expression on the parameters, and ONNX nodes."""

    expression: str
    shapes: tuple[tuple[int, ...], ...]
    nodes: tuple[tuple[str, tuple[str, ...], str, dict[str, Any]], ...]
    dtypes: tuple[str, ...] = ()

    def arguments(self) -> list[Array]:
        """Returns small random values; indices are below 512."""
        random = np.random.default_rng(0)
        arrays: list[Array] = []
        for k, shape in enumerate(self.shapes):
            if self.dtype(k) == "int64":
                arrays.append(random.integers(0, 512, shape))
            else:
                arrays.append(random.standard_normal(shape, np.float32))
        return arrays

    def dtype(self, k: int) -> str:
        """Returns the dtype of a parameter."""
        return self.dtypes[k] if self.dtypes else "float32"

    def module(self) -> IRModule:
        """Returns the program."""
        params = [
            f'x{k}: R.Tensor({shape}, "{self.dtype(k)}")' for k, shape in enumerate(self.shapes)
        ]
        text = f"@R.function\ndef main({', '.join(params)}):\n    return {self.expression}\n"
        return structir.parse(text)

    def session(self, threads: int) -> Callable[..., Array]:
        """Returns the ONNX Runtime session for a number of threads."""
        kinds = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64}
        inputs = [
            helper.make_tensor_value_info(f"x{k}", kinds[self.dtype(k)], shape)
            for k, shape in enumerate(self.shapes)
        ]
        nodes = [helper.make_node(op, ins, [out], **more) for op, ins, out, more in self.nodes]
        output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph(nodes, "case", inputs, [output])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return lambda *args: session.run(None, {f"x{k}": a for k, a in enumerate(args)})[0]


def conv(channels: int, kernel: int, groups: int) -> Case:
    """Returns a convolution that keeps the height and width."""
    pad = kernel // 2
    return Case(
        f"R.nn.conv2d(x0, x1, padding={pad}, groups={groups})",
        ((1, channels, 56, 56), (channels, channels // groups, kernel, kernel)),
        (("Conv", ("x0", "x1"), "y", {"pads": [pad] * 4, "group": groups}),),
    )


SCORES = (
    ("Transpose", ("x1",), "k", {"perm": [0, 1, 3, 2]}),
    ("MatMul", ("x0", "k"), "s", {}),
    ("Softmax", ("s",), "p", {"axis": -1}),
    ("MatMul", ("p", "x2"), "y", {}),
)
HEADS = "R.nn.softmax(R.matmul(x0, R.permute_dims(x1, [0, 1, 3, 2])))"
CASES = {
    "convolution 3 x 3, 64 channels": conv(64, 3, 1),
    "convolution 1 x 1, 64 channels": conv(64, 1, 1),
    "depthwise convolution 3 x 3": conv(64, 3, 64),
    "attention, 8 heads, 128 tokens": Case(
        f"R.matmul({HEADS}, x2)", ((1, 8, 128, 64),) * 3, SCORES
    ),
    "softmax, 512 x 512": Case(
        "R.nn.softmax(x0)", ((512, 512),), (("Softmax", ("x0",), "y", {"axis": -1}),)
    ),
    "layer_norm, 2048 x 512": Case(
        "R.nn.layer_norm(x0, x1, x1, axes=[-1])",
        ((2048, 512), (512,)),
        (("LayerNormalization", ("x0", "x1", "x1"), "y", {"axis": -1}),),
    ),
    "max_pool2d, 64 x 112 x 112": Case(
        "R.nn.max_pool2d(x0, pool_size=3, strides=2, padding=1)",
        ((1, 64, 112, 112),),
        (
            (
                "MaxPool",
                ("x0",),
                "y",
                {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4},
            ),
        ),
    ),
    "gather of 4096 rows of 256": Case(
        "R.take(x0, x1, axis=0)",
        ((512, 256), (4096,)),
        (("Gather", ("x0", "x1"), "y", {"axis": 0}),),
        ("float32", "int64"),
    ),
    "matmul, 512 x 512 x 512": Case(
        "R.matmul(x0, x1)", ((512, 512), (512, 512)), (("MatMul", ("x0", "x1"), "y", {}),)
    ),
}
DECODE = """
@R.function
def main(x0: R.Tensor((1, 256), "float32"), k: R.Tensor((4, 128, 64), "float32"),
         w: R.Tensor((256, 256), "float32"), up: R.Tensor((256, 1024), "float32"),
         down: R.Tensor((1024, 256), "float32"), g: R.Tensor((256,), "float32")):
    with R.dataflow():
{layers}
        R.output(x{last})
    return x{last}
"""
LAYER = """
        n{i} = R.nn.layer_norm(x{i}, g, g, axes=[-1])
        q{i} = R.reshape(R.matmul(n{i}, w), R.shape([4, 1, 64]))
        s{i} = R.nn.softmax(R.matmul(q{i}, R.permute_dims(k, [0, 2, 1])))
        a{i} = R.matmul(R.reshape(R.matmul(s{i}, k), R.shape([1, 256])), w) + x{i}
        h{i} = R.nn.gelu(R.matmul(R.nn.layer_norm(a{i}, g, g, axes=[-1]), up))
        x{j} = R.matmul(h{i}, down) + a{i}
"""


def decode_step(layers: int) -> tuple[IRModule, list[Array]]:
    """Returns one token through a small transformer with a cache of 128 tokens."""
    text = "".join(LAYER.format(i=i, j=i + 1) for i in range(layers))
    shapes = ((1, 256), (4, 128, 64), (256, 256), (256, 1024), (1024, 256), (256,))
    random = np.random.default_rng(0)
    args = [random.standard_normal(s, np.float32) * np.float32(0.05) for s in shapes]
    return structir.parse(DECODE.format(layers=text, last=layers)), args


def shortest(sides: list[Callable[..., Any]], args: list[Array], bursts: int) -> list[float]:
    """Returns the shortest time of a call of each side, in interleaved bursts."""
    for side in sides:
        for _ in range(3):
            side(*args)
    best = [float("inf")] * len(sides)
    for _ in range(bursts):
        for k, side in enumerate(sides):
            time.sleep(PAUSE)
            for _ in range(CALLS):
                start = time.perf_counter()
                side(*args)
                best[k] = min(best[k], time.perf_counter() - start)
    return best


def measured(threads: int, bursts: int) -> list[tuple[str, list[float]]]:
    """Returns each case with four times: one and many threads here, and of ONNX Runtime."""
    rows = []
    for name, case in CASES.items():
        module, args = case.module(), case.arguments()
        own: list[Any] = [structir.compile(module, num_threads=n)["main"] for n in (1, threads)]
        sides = [*own, *[case.session(n) for n in (1, threads)]]
        for side in sides[1:]:
            np.testing.assert_allclose(side(*args), own[0](*args), rtol=1e-3, atol=1e-3)
        rows.append((name, shortest(sides, args, bursts)))
    module, args = decode_step(2)
    default: list[Any] = [structir.compile(module, num_threads=n)["main"] for n in (1, None)]
    rows.append(("decode step: default beside one thread", shortest(default, args, bursts)))
    return rows


def layers(width: int) -> Case:
    """Returns four layers of a width."""
    nodes = [("MatMul", ("x0", "x1"), "m0", {}), ("Relu", ("m0",), "r0", {})]
    expression = "R.nn.relu(R.matmul(x0, x1))"
    for k in range(1, 4):
        expression = f"R.nn.relu(R.matmul({expression}, x1))"
        out = "y" if k == 3 else f"r{k}"
        nodes += [("MatMul", (f"r{k - 1}", "x1"), f"m{k}", {}), ("Relu", (f"m{k}",), out, {})]
    return Case(expression, ((width, width), (width, width)), tuple(nodes))


def concurrent(sides: list[Callable[..., Any]], args: list[Array], callers: int) -> list[float]:
    """Returns calls per second and seconds of processor time per call of some Python threads."""
    counts, ends = [0] * callers, time.perf_counter() + 0.3

    def call(k: int) -> None:
        side = sides[k % len(sides)]
        while time.perf_counter() < ends:
            side(*args)
            counts[k] += 1

    threads = [threading.Thread(target=call, args=(k,)) for k in range(callers)]
    start, used = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used, elapsed = time.process_time() - used, time.perf_counter() - start
    return [sum(counts) / elapsed, used / max(1, sum(counts))]


def callers_table(rounds: int) -> Table:
    """Returns the table of concurrent callers: the most calls, the least processor time."""
    table = Table(title="Python threads that call: calls per second, us of processor time a call")
    for column in ("program", "callers", "StructIR", "us", "ORT", "us"):
        table.add_column(column, justify="left" if column == "program" else "right")
    for width in (8, 64, 256):
        case = layers(width)
        args = case.arguments()
        own = [structir.compile(case.module(), num_threads=1)["main"] for _ in range(2)]
        peers = [case.session(1) for _ in range(2)]
        for callers, count, text in ((1, 1, "1"), (8, 1, "8"), (8, 2, "8, two executables")):
            cells = []
            for sides in (own[:count], peers[:count]):
                samples = [concurrent(sides, args, callers) for _ in range(rounds)]
                calls, seconds = max(s[0] for s in samples), min(s[1] for s in samples)
                cells += [f"{calls:.0f}", f"{seconds * 1e6:.1f}"]
            table.add_row(f"4 layers of width {width}", text, *cells)
    return table


def table_of(rows: list[tuple[str, list[float]]], threads: int) -> Table:
    """Returns the table: times in microseconds, and ratios of one thread to many."""
    table = Table(title=f"{processor()}, {threads} threads, us")
    for column in ("program", "one", "many", "speed-up", "ORT one", "ORT many", "ORT speed-up"):
        table.add_column(column, justify="left" if column == "program" else "right")
    for name, times in rows:
        cells = []
        for one, many in zip(times[::2], times[1::2], strict=True):
            cells += [f"{one * 1e6:.0f}", f"{many * 1e6:.0f}", f"{one / many:.2f}"]
        table.add_row(name, *cells)
    return table


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bursts", type=int, default=200)
    asked = parser.parse_args()
    print(f"{sys.version.split()[0]}, ONNX Runtime {onnxruntime.__version__}", file=sys.stderr)
    console = Console(width=120)
    console.print(table_of(measured(asked.threads, asked.bursts), asked.threads))
    console.print(callers_table(rounds=5))


if __name__ == "__main__":
    main()

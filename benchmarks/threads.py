"""Measures the speed-up of threads, of StructIR and of ONNX Runtime, op by op.

    python benchmarks/threads.py --threads 2

Each system and number of threads is a process of its own, in turns with the others. The shortest
elapsed time of a call counts; `CPU` is the shortest CPU time of one thread. The last row is a
decode step with the default number of threads beside one thread.

The second table has one and eight Python threads that call one executable, or two, with one thread
each: calls per second, and the CPU time of a call, which a loaded machine changes less.
"""

import argparse
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from typing import Any

import attrs
import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from rich.console import Console
from rich.table import Table

import structir
from structir.ir import IRModule
from turns import Program, Sample, System, burst, conditions, least, samples_in_turns

DECODE_STEP = "decode step: default beside one thread"
WIDTHS = (8, 64, 256)  # of the layers that Python threads call
CALLERS = {"1": (1, 1), "8": (8, 1), "8, two executables": (8, 2)}  # threads, executables
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


def structir_calls(threads: int) -> dict[Hashable, Program]:
    """Returns the calls of StructIR with a number of threads."""
    calls: dict[Hashable, Program] = {}
    for name, case in CASES.items():
        main = structir.compile(case.module(), num_threads=threads)["main"]
        calls |= _programs(name, partial(main, *case.arguments()))
    module, args = decode_step(2)
    main = structir.compile(module, num_threads=None if threads > 1 else 1)["main"]
    return calls | _programs(DECODE_STEP, partial(main, *args))


def onnxruntime_calls(threads: int) -> dict[Hashable, Program]:
    """Returns the calls of ONNX Runtime with a number of threads."""
    calls: dict[Hashable, Program] = {}
    for name, case in CASES.items():
        calls |= _programs(name, partial(case.session(threads), *case.arguments()))
    return calls


def _programs(name: str, call: Program) -> dict[Hashable, Program]:
    return {(name, "result"): call, (name, "time"): partial(burst, call)}


def measured(threads: int, rounds: int) -> Iterator[tuple[str, list[Sample]]]:
    """Yields each case with four times: one and many threads of StructIR, and of ONNX Runtime."""
    with contextlib.ExitStack() as stack:
        systems = dict[str, System]()
        for prepare in (structir_calls, onnxruntime_calls):
            for number in (1, threads):
                system = System(prepare, number)
                stack.callback(system.close)
                systems[f"{prepare.__name__} {number}"] = system
        for name in CASES:
            first, *results = [system.run((name, "result")) for system in systems.values()]
            for result in results:
                np.testing.assert_allclose(result, first, rtol=1e-3, atol=1e-3)
            samples = samples_in_turns(systems, (name, "time"), rounds)
            yield name, [least(each) for each in samples.values()]
        own = {name: each for name, each in systems.items() if name.startswith("structir")}
        samples = samples_in_turns(own, (DECODE_STEP, "time"), rounds)
        yield DECODE_STEP, [least(each) for each in samples.values()]


def layers(width: int) -> Case:
    """Returns four layers of a width."""
    nodes = [("MatMul", ("x0", "x1"), "m0", {}), ("Relu", ("m0",), "r0", {})]
    expression = "R.nn.relu(R.matmul(x0, x1))"
    for k in range(1, 4):
        expression = f"R.nn.relu(R.matmul({expression}, x1))"
        out = "y" if k == 3 else f"r{k}"
        nodes += [("MatMul", (f"r{k - 1}", "x1"), f"m{k}", {}), ("Relu", (f"m{k}",), out, {})]
    return Case(expression, ((width, width), (width, width)), tuple(nodes))


def concurrent(sides: list[Callable[..., Any]], args: list[Array], callers: int) -> Sample:
    """Returns the times of a call when some Python threads call."""
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
    calls = max(1, sum(counts))
    return Sample(elapsed / calls, used / calls)


def concurrent_calls(is_peer: bool) -> dict[Hashable, Program]:
    """Returns the programs of the second table, of StructIR or of ONNX Runtime."""
    programs: dict[Hashable, Program] = {}
    for width in WIDTHS:
        case, sides = layers(width), list[Callable[..., Any]]()
        for _ in range(2):
            own = structir.compile(case.module(), num_threads=1)["main"]
            sides.append(case.session(1) if is_peer else own)
        for callers, count in CALLERS.values():
            call = partial(concurrent, sides[:count], case.arguments(), callers)
            programs[width, callers, count] = call
    return programs


def callers_table(rounds: int) -> Table:
    """Returns the table of concurrent callers: the most calls, the least CPU time."""
    table = Table(title="Python threads that call: calls per second, us of CPU time a call")
    for column in ("program", "callers", "StructIR", "us", "ONNX Runtime", "us"):
        table.add_column(column, justify="left" if column == "program" else "right")
    with contextlib.ExitStack() as stack:
        systems = dict[str, System]()
        for name, is_peer in (("StructIR", False), ("ONNX Runtime", True)):
            systems[name] = System(concurrent_calls, is_peer)
            stack.callback(systems[name].close)
        for width in WIDTHS:
            for text, (callers, count) in CALLERS.items():
                samples = samples_in_turns(systems, (width, callers, count), rounds)
                cells = list[str]()
                for shortest in map(least, samples.values()):
                    cells += [f"{1 / shortest.clock:.0f}", f"{shortest.cpu * 1e6:.1f}"]
                table.add_row(f"4 layers of width {width}", text, *cells)
    return table


def table_of(rows: Iterable[tuple[str, list[Sample]]], threads: int) -> Table:
    """Returns the table: times in microseconds, and ratios of one thread to many."""
    table = Table(title=f"{conditions(threads)}, us")
    columns = ("one", "CPU", "many", "speed-up")
    for column in ("program", *columns, *(f"ORT {column}" for column in columns)):
        table.add_column(column, justify="left" if column == "program" else "right")
    for name, times in rows:
        cells = []
        for one, many in zip(times[::2], times[1::2], strict=True):
            cells += [f"{t * 1e6:.0f}" for t in (one.clock, one.cpu, many.clock)]
            cells.append(f"{one.clock / many.clock:.2f}")
        table.add_row(name, *cells)
    return table


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    print(f"{sys.version.split()[0]}, ONNX Runtime {onnxruntime.__version__}", file=sys.stderr)
    console = Console(width=150)
    console.print(table_of(measured(options.threads, options.rounds), options.threads))
    console.print(callers_table(rounds=5))


if __name__ == "__main__":
    main()

"""Measures what stands around kernels: calls, starts of a process, threads, memory.

    python benchmarks/runtime_costs.py

The figures go to `benchmarks/results/runtime_costs.json`, and into the table of
`docs/performance.md`. Calls are timed beside NumPy and ONNX Runtime, in turn, on one thread.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "runtime_costs.json"
PAGE = HERE.parent / "docs" / "performance.md"
START, END = "<!-- runtime costs: begin -->", "<!-- runtime costs: end -->"
LIBRARIES = ("STRUCTIR", "OPENBLAS", "MKL", "OMP", "NUMBA", "VECLIB")
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in LIBRARIES}
if not ONE_THREAD.items() <= os.environ.items():  # libraries read it when they are loaded
    os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ONE_THREAD)

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402

import structir  # noqa: E402
from processor import processor  # noqa: E402
from structir.script import I, R  # noqa: E402

Row = dict[str, Any]


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
    def gelu(x: R.Tensor(("n",), "float32")):
        return R.nn.gelu_tanh(x)

    @R.function
    def softmax(x: R.Tensor(("n", 384), "float32")):
        return R.nn.softmax(x)

    @R.function
    def matmul(x: R.Tensor(("n", "k"), "float32"), y: R.Tensor(("k", "m"), "float32")):
        return R.matmul(x, y)


STARTS = 5  # processes whose median is a start: single ones differ by a factor of two
PAIRS = 50  # of a product and a relu: a hundred ops


def chain_text(pairs: int = PAIRS) -> str:
    lines = [f"    t{k} = R.nn.relu(R.matmul(t{k - 1}, w))" for k in range(1, pairs + 1)]
    head = 'def main(t0: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 8), "float32")):'
    return "\n".join(["@R.function", head, *lines, f"    return t{pairs}", ""])


def floats(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def onnx_session(nodes: list[Any], shapes: dict[str, list[Any]], result: str) -> Any:
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    output = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "graph", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def relu_peer() -> Callable[..., Any]:
    nodes = [
        helper.make_node("Mul", ["x", "a"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    session = onnx_session(nodes, {name: ["n"] for name in "xab"}, "y")
    return lambda x, a, b: session.run(None, {"x": x, "a": a, "b": b})[0]


def chain_peer(pairs: int = PAIRS) -> Callable[..., Any]:
    nodes = []
    for k in range(1, pairs + 1):
        nodes.append(helper.make_node("MatMul", [f"t{k - 1}", "w"], [f"m{k}"]))
        nodes.append(helper.make_node("Relu", [f"m{k}"], [f"t{k}"]))
    session = onnx_session(nodes, {"t0": ["n", 8], "w": [8, 8]}, f"t{pairs}")
    return lambda t0, w: session.run(None, {"t0": t0, "w": w})[0]


def chain_numpy(t: Any, w: Any, pairs: int = PAIRS) -> Any:
    for _ in range(pairs):
        t = np.maximum(t @ w, np.float32(0))
    return t


def sample(run: Callable[..., Any], args: tuple[Any, ...], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        run(*args)
    return (time.perf_counter() - start) / calls


def medians(sides: list[Callable[..., Any]], args: tuple[Any, ...], rounds: int) -> list[float]:
    """Seconds of a call for each side; samples in turn."""
    for run in sides:
        run(*args)
    calls = [max(1, int(2e-3 / sample(run, args, 3))) for run in sides]
    samples = [
        [sample(r, args, c) for r, c in zip(sides, calls, strict=True)] for _ in range(rounds)
    ]
    return [float(m) for m in np.median(samples, axis=0)]


def call_rows(rounds: int) -> Iterator[Row]:
    own = structir.compile(Programs)
    flat = tuple(floats(1000, seed=s) for s in range(3))
    sides = [own["relu"], lambda x, a, b: np.maximum(x * a + b, np.float32(0)), relu_peer()]
    yield call_row("relu(x*a+b), 1,000 elements, one call", medians(sides, flat, rounds))
    chain = structir.compile(structir.parse(chain_text()))["main"]
    args = (floats(8, 8), floats(8, 8, seed=1) * np.float32(0.3))
    np.testing.assert_allclose(chain(*args), chain_numpy(*args), rtol=1e-3, atol=1e-5)
    row = medians([chain, chain_numpy, chain_peer()], args, rounds)
    yield call_row("100 ops on 8 x 8, one call", row)


def new_size_rows(rounds: int) -> Iterator[Row]:
    """Calls with a size that did not occur before; samples in turn."""
    own = structir.compile(Programs)["relu"]
    sides = [own, lambda x, a, b: np.maximum(x * a + b, np.float32(0)), relu_peer()]
    samples = [[sample(r, (floats(n),) * 3, 1) for r in sides] for n in range(8, 16 + rounds)]
    yield call_row("relu(x*a+b), a new size", [float(m) for m in np.median(samples[8:], axis=0)])
    w = floats(8, 8, seed=1) * np.float32(0.3)
    chain = structir.compile(structir.parse(chain_text(4)))["main"]
    layers = [chain, lambda t, w: chain_numpy(t, w, 4), chain_peer(4)]
    samples = [[sample(r, (floats(n, 8), w), 1) for r in layers] for n in range(8, 16 + rounds)]
    yield call_row("4 layers of width 8, a new size", list(np.median(samples[8:], axis=0)))


COLD = """
import sys, time
import structir.runtime.executable
from runtime_costs import chain_peer, chain_text, floats, structir
side, layers = sys.argv[1], int(sys.argv[2])
args = floats(8, 8), floats(8, 8, seed=1)
start = time.process_time()
if side == "onnxruntime":
    chain_peer(layers)(*args)
else:
    structir.compile(structir.parse(chain_text(layers)))["main"](*args)
print(time.process_time() - start)
"""


def cold_rows() -> Iterator[Row]:
    """CPU time from a program to its first result in a new process, after the imports."""
    for layers in (1, 48):
        with tempfile.TemporaryDirectory() as folder:
            cache = {"STRUCTIR_CACHE": folder}
            command = [str(layers)]
            sides = ("structir", "onnxruntime")
            times = {side: float(printed(COLD, [side, *command], cache)) for side in sides}
        yield {"kind": "cold", "what": f"equal layers: {layers}", **times}


def call_row(what: str, seconds: list[float]) -> Row:
    names = ("structir", "numpy", "onnxruntime")
    return {"kind": "call", "what": what, **dict(zip(names, seconds, strict=True))}


def thread_rows(rounds: int) -> Iterator[Row]:
    one, two = structir.compile(Programs, num_threads=1), structir.compile(Programs, num_threads=2)
    big = floats(10**7)
    cases = {
        "relu": (big, big, big),
        "gelu": (big,),
        "softmax": (big[: 26041 * 384].reshape(-1, 384),),
        "matmul": (floats(1024, 1024), floats(1024, 1024, seed=1)),
    }
    for name, args in cases.items():
        out = one[name](*args)
        two[name](*args)
        sides = [lambda *a, f=e[name], o=out: f(*a, out=o) for e in (one, two)]
        first, second = medians(sides, args, rounds)
        what = f"{name}, {args[0].shape}, results reused"
        yield {"kind": "threads", "what": what, "one": first, "two": second}


STARTING = """
import sys, time
import numpy, structir, structir.runtime.executable
from minilm_program import minilm_text
text = minilm_text()
start, worked = time.perf_counter(), time.process_time()
if sys.argv[1] == "load":
    executable = structir.load(sys.argv[2])
else:
    executable = structir.compile(structir.parse(text, filename="minilm"))
print(time.perf_counter() - start, time.process_time() - worked)
if sys.argv[1] == "save":
    executable.save(sys.argv[2])
"""
MAKING = """
import sys
import onnx, structir
from structir.frontend.onnx import from_onnx
import minilm_model
model = minilm_model.onnx_model(minilm_model.weights())
onnx.save(model, sys.argv[1] + ".onnx")
structir.compile(from_onnx(model)).save(sys.argv[1] + ".sir")
"""
HOLDING = """
import sys
import numpy as np
side, path = sys.argv[1:]
ids = np.random.default_rng(0).integers(0, 1000, (8, 128))
if side == "onnxruntime":
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path + ".onnx", options)
    run = lambda: session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
else:
    import structir
    if side == "loaded":
        executable = structir.load(path + ".sir")
    else:
        from structir.frontend.onnx import from_onnx
        executable = structir.compile(from_onnx(path + ".onnx", mapped=side == "mapped"))
    run = lambda: executable["main"](ids, np.ones_like(ids))
for _ in range(5):
    run()
status = open("/proc/self/status").read()  # what getrusage tells begins with the parent's
print(int(status.split("VmHWM:")[1].split()[0]) * 1024)
"""


def start_rows() -> Iterator[Row]:
    """The MiniLM encoder in a new process, after the imports."""
    with tempfile.TemporaryDirectory() as folder:
        saved = str(Path(folder) / "model.sir")
        cache = {"STRUCTIR_CACHE": str(Path(folder) / "cache")}
        yield start_row("MiniLM, empty cache", ["save", saved], cache)
        yield start_row("MiniLM, kernels in the cache on disk", ["compile"], cache, STARTS)
        off = {"STRUCTIR_CACHE": "off"}
        yield start_row("MiniLM, from a saved executable", ["load", saved], off, STARTS)


def start_row(what: str, command: list[str], environment: dict[str, str], starts: int = 1) -> Row:
    """Medians over processes. An empty cache is filled by the first, so it is one process."""
    times = [map(float, printed(STARTING, command, environment).split()) for _ in range(starts)]
    elapsed, worked = (statistics.median(side) for side in zip(*times, strict=True))
    return {"kind": "start", "what": what, "structir": elapsed, "cpu": worked}


def memory_rows() -> Iterator[Row]:
    """The most memory that a process takes which runs the encoder on 8 x 128 tokens; on Linux."""
    if not Path("/proc/self/status").exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "encoder")
        cache = {"STRUCTIR_CACHE": str(Path(folder) / "cache")}
        printed(MAKING, [path], cache)
        peer = int(printed(HOLDING, ["onnxruntime", path], cache))
        sides = {"loaded": "a saved executable", "mapped": "compiled from ONNX, mapped"}
        for side, what in {**sides, "compiled": "compiled from ONNX"}.items():
            own = int(printed(HOLDING, [side, path], cache))
            row = {"kind": "memory", "what": f"MiniLM, 8 x 128 tokens, {what}"}
            yield {**row, "structir": own, "onnxruntime": peer}


def printed(program: str, command: list[str], environment: dict[str, str]) -> str:
    """What a Python program prints in a process of its own."""
    folders = [HERE, HERE.parent / "examples", HERE.parent]
    paths = [*map(str, folders), os.environ.get("PYTHONPATH", "")]
    given = os.environ | environment | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        [sys.executable, "-c", program, *command],
        env=given,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def time_text(seconds: float) -> str:
    units = ((1e6, "us"), (1e3, "ms"), (1, "s"))
    factor, unit = next((u for u in units if seconds * u[0] < 999.5), units[-1])
    return f"{seconds * factor:#.3g}".rstrip(".") + f" {unit}"


def page_table(found: Row) -> str:
    rows = found["rows"]
    lines = [
        f"Measured {found['date']} on {found['machine']}, {found['cores']} cores, load "
        f"{found['load']}; medians of {found['rounds']} interleaved samples.",
        "",
        "| a call, one thread | StructIR | NumPy | ONNX Runtime |",
        "|---|---|---|---|",
    ]
    sides = ("structir", "numpy", "onnxruntime")
    for row in (r for r in rows if r["kind"] == "call"):
        lines.append(f"| {row['what']} | {' | '.join(time_text(row[s]) for s in sides)} |")
    lines += ["", "| threads | one | two | ratio |", "|---|---|---|---|"]
    for row in (r for r in rows if r["kind"] == "threads"):
        times = f"{time_text(row['one'])} | {time_text(row['two'])}"
        lines.append(f"| {row['what']} | {times} | {row['one'] / row['two']:.2f} |")
    lines += ["", "| program to first result, CPU time | StructIR | ONNX Runtime |"]
    lines.append("|---|---|---|")
    for row in (r for r in rows if r["kind"] == "cold"):
        times = f"{time_text(row['structir'])} | {time_text(row['onnxruntime'])}"
        lines.append(f"| {row['what']} | {times} |")
    lines += ["", "| start of a process, after its imports | elapsed time | CPU time |"]
    lines.append("|---|---|---|")
    for row in (r for r in rows if r["kind"] == "start"):
        times = f"{time_text(row['structir'])} | {time_text(row['cpu'])}"
        lines.append(f"| {row['what']} | {times} |")
    lines += ["", "| peak memory of a process | StructIR | ONNX Runtime | ratio |"]
    lines.append("|---|---|---|---|")
    for row in (r for r in rows if r["kind"] == "memory"):
        own, peer = row["structir"], row["onnxruntime"]
        megabytes = f"{own / 1e6:.0f} MB | {peer / 1e6:.0f} MB | {own / peer:.2f}"
        lines.append(f"| {row['what']} | {megabytes} |")
    return "\n".join(lines)


def write_page(found: Row) -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(START)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{START}\n\n{page_table(found)}\n\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    calls = [*call_rows(rounds), *new_size_rows(rounds)]
    rows = [*calls, *thread_rows(rounds), *cold_rows(), *start_rows(), *memory_rows()]
    found = {
        "date": date.today().isoformat(),
        "machine": processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "rounds": rounds,
        "rows": rows,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    write_page(found)
    print(page_table(found))


if __name__ == "__main__":
    main()

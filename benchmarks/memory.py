"""Measures the peak memory of importing, compiling, running and saving a model; on Linux.

    python benchmarks/memory.py

The model is a chain of products with random weights. Each case runs in a new process. The peer is
an ONNX Runtime session of the same file; it is skipped if it is not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZE = 2048  # rows and columns of a weight: 16.8 MB
LAYERS = 19
PEAK = """
def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) * 1024
"""
STRUCTIR = """
import sys
import numpy as np
import structir, structir.runtime.executable
from structir.frontend.onnx import from_onnx
before = peak()
executable = structir.compile(from_onnx(sys.argv[1]))
executable["main"](np.ones((2, int(sys.argv[2])), "float32"))
compiled = peak()
executable.save(sys.argv[1] + ".sir")
print(before, compiled, peak())
"""
LOADED = """
import sys
import numpy as np
import structir, structir.runtime.executable
before = peak()
structir.load(sys.argv[1] + ".sir")["main"](np.ones((2, int(sys.argv[2])), "float32"))
print(before, peak())
"""
PEER = """
import sys
import numpy as np
import onnxruntime
before = peak()
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options)
session.run(None, {"x0": np.ones((2, int(sys.argv[2])), "float32")})
print(before, peak())
"""
STAGES = ("imports", "compiled and run", "saved")


def write_model(path: Path, layers: int, size: int, external: bool) -> None:
    rng = np.random.default_rng(0)
    nodes = [helper.make_node("MatMul", [f"x{k}", f"w{k}"], [f"x{k + 1}"]) for k in range(layers)]
    weights = [
        numpy_helper.from_array(rng.standard_normal((size, size), np.float32), f"w{k}")
        for k in range(layers)
    ]
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size])
        for name in ("x0", f"x{layers}")
    ]
    graph = helper.make_graph(nodes, "chain", values[:1], values[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path, save_as_external_data=external, location=f"{path.name}.data")


def peaks(program: str, path: Path, size: int) -> list[int]:
    """Returns the peak memory in bytes after the stages of a program in a new process."""
    command = [sys.executable, "-c", PEAK + program, str(path), str(size)]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [int(word) for word in process.stdout.split()]


def rows(layers: int, size: int) -> Iterator[tuple[str, list[int]]]:
    """Returns the cases and their peaks: after the imports, and after each stage."""
    programs = {"StructIR": STRUCTIR, "StructIR, loaded": LOADED}
    if importlib.util.find_spec("onnxruntime") is not None:
        programs["ONNX Runtime"] = PEER
    with tempfile.TemporaryDirectory() as folder:
        for form, external in (("one file", False), ("external data", True)):
            path = Path(folder) / f"{'external' if external else 'whole'}.onnx"
            write_model(path, layers, size, external)
            for name, program in programs.items():
                yield f"{name}, {form}", peaks(program, path, size)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--size", type=int, default=SIZE)
    arguments = parser.parse_args()
    weights = arguments.layers * arguments.size**2 * 4
    print(f"{weights / 1e6:.0f} MB of weights; ratios are (peak - 150 MB) / weights")
    print(f"| peak memory of a process | {' | '.join(STAGES)} | ratio |")
    print("|---|---|---|---|---|")
    for name, stages in rows(arguments.layers, arguments.size):
        cells = [f"{stage / 1e6:.0f} MB" for stage in stages] + [""] * (len(STAGES) - len(stages))
        ratio = (max(stages) - 150e6) / weights
        print(f"| {name} | {' | '.join(cells)} | {ratio:.2f} |")


if __name__ == "__main__":
    main()

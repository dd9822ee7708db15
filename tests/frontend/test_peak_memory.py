"""Importing, compiling and saving take memory for one copy of the weights; in a child process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.frontend.models import made, node, value
from tests.frontend.torch.written import archive, meta, program, symbol
from tests.frontend.torch.written import node as torch_node

pytestmark = pytest.mark.sampled(1)

SIZE, LAYERS = 2048, 6
WEIGHTS = {f"w{k}": np.full((SIZE, SIZE), 0.5 + k, np.float32) for k in range(LAYERS)}
BYTES = LAYERS * SIZE * SIZE * 4
CHILD = """
import sys
import numpy as np
import structir
from structir.frontend.onnx import from_onnx
from structir.frontend.torch import from_pt2

def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) * 1024

load, path = {"onnx": from_onnx, "pt2": from_pt2}[sys.argv[1]], sys.argv[2]
x = np.ones((2, 2048), "float32")
executable = structir.compile(load(sys.argv[3]))  # the memory of the libraries is not counted
executable["main"](x)
executable.save(path + ".sir")
before = peak()
executable = structir.compile(load(path))
executable["main"](x)
executable.save(path + ".sir")
print(peak() - before)
"""


def onnx_file(path: Path, layers: int, external: bool) -> Path:
    nodes = [node("MatMul", f"x{k} w{k}", f"x{k + 1}") for k in range(layers)]
    model = made(nodes, [value("x0", ["n", SIZE])], [f"x{layers}"])
    weights = list(WEIGHTS.items())[:layers]
    model.graph.initializer.extend([numpy_helper.from_array(a, n) for n, a in weights])
    onnx.save(model, path, save_as_external_data=external, location=f"{path.name}.data")
    return path


def torch_file(path: Path, layers: int) -> Path:
    rows, names = symbol("s0"), tuple([f"w{k}" for k in range(layers)])
    nodes = [
        torch_node("aten.mm.default", f"x{k + 1}", self=f"x{k}", mat2=f"w{k}")
        for k in range(layers)
    ]
    values = {f"x{k}": meta(rows, SIZE) for k in range(layers + 1)}
    values |= {name: meta(SIZE, SIZE) for name in names}
    whole = program(nodes, values, ["x0"], [f"x{layers}"], names)
    path.write_bytes(archive(whole, {name: WEIGHTS[name] for name in names}).getvalue())
    return path


def files(folder: Path, form: str) -> list[Path]:
    """Returns a large model, and a small one without a part of its weights."""
    if form == "pt2":
        return [torch_file(folder / f"{n}.pt2", n) for n in (LAYERS, 1)]
    external = form == "external data"
    return [onnx_file(folder / f"{n}.onnx", n, external) for n in (LAYERS, 1)]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
@pytest.mark.parametrize("form", ["onnx", "external data", "pt2"])
def test_weights_are_in_memory_once(tmp_path: Path, form: str) -> None:
    large, small = files(tmp_path, form)
    kind = "pt2" if form == "pt2" else "onnx"
    command = [sys.executable, "-c", CHILD, kind, str(large), str(small)]
    peak = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert peak < 1.3 * BYTES
    saved = Path(f"{large}.sir")
    assert saved.stat().st_size < 1.1 * BYTES

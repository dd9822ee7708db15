"""Code for plainer processors than this one: the same programs with half the registers, or with
none of the tiles."""

import os
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest

ROOT = Path(__file__).resolve().parents[3]
PLAIN = "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+avx,+f16c"
WIDER = f"{PLAIN},+avx2,+fma,+bmi,+bmi2,+lzcnt"
PROGRAM = '''
import sys
import numpy as np
import structir
from structir.backend.cpu.features import cpu_features
from structir.backend.cpu.tiles import tile_shapes

lanes = [shape.lanes for shape in tile_shapes("float32")]
assert "avx512f" not in cpu_features() and lanes == eval(sys.argv[1]), lanes
LINES = """
R.nn.gelu(R.matmul(x, w) + b)
R.nn.softmax(R.matmul(x, R.permute_dims(x)))
R.nn.layer_norm(x, b, b, axes=[-1])
R.sigmoid(x) * R.tanh(x)
R.sin(x * 1000000.0) + R.cos(x) * R.asin(R.tanh(x))
R.permute_dims(x)
R.nn.relu(R.nn.conv2d(R.reshape(x, R.shape([1, 2, 10, 31])), k, padding=1))
R.nn.conv2d_transpose(R.reshape(x, R.shape([1, 2, 10, 31])), t, strides=2)
R.astype(R.astype(x, "float16"), "float32")
"""
random = np.random.default_rng(0)
shapes = {"w": (31, 31), "b": (31,), "k": (17, 2, 3, 3), "t": (2, 17, 3, 3)}
constants = {n: random.standard_normal(s, np.float32) for n, s in shapes.items()}
x = random.standard_normal((20, 31), np.float32)
for line in LINES.strip().splitlines():
    used = [n for n in shapes if any(f"{b}{n}{a}" in line for b in "( " for a in ",) ")]
    body = [*[f'{n} = metadata["{n}"]' for n in used], f"y = {line}", "R.output(y)"]
    text = "@R.function\\ndef main(x: R.Tensor((20, 31), 'float32')):\\n    with R.dataflow():\\n"
    text += "".join(f"        {part}\\n" for part in body) + "    return y\\n"
    module = structir.parse(text, constants=constants)
    compiled = structir.compile(module)
    found, wanted = compiled["main"](x), structir.interpret(module, "main", x)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5, err_msg=line)
    assert compiled.kernel_count, line
'''


@pytest.mark.sampled(1)
@pytest.mark.skipif("avx2" not in dict(llvm.get_host_cpu_features()), reason="code for x86-64")
@pytest.mark.parametrize(
    ("name", "features", "lanes"), [("haswell", WIDER, "[8, 8]"), ("x86-64", PLAIN, "[]")]
)
def test_programs_for_plainer_processors(name: str, features: str, lanes: str) -> None:
    named = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}
    environment = os.environ | named | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROGRAM, lanes]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif("avx2" not in dict(llvm.get_host_cpu_features()), reason="code for x86-64")
def test_a_processor_by_its_name_alone_has_the_features_of_this_one() -> None:
    environment = os.environ | {"NUMBA_CPU_NAME": "znver4", "PYTHONPATH": str(ROOT)}
    environment.pop("NUMBA_CPU_FEATURES", None)
    program = "from structir.backend.cpu.features import cpu_features; print(*cpu_features())"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    here = {name for name, has in llvm.get_host_cpu_features().items() if has}
    assert set(done.stdout.split()) == here

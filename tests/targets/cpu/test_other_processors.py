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
TILES = """
import sys
from structir.targets.cpu.tiles import tile_shapes

lanes = [shape.lanes for shape in tile_shapes("float32")]
assert lanes == eval(sys.argv[1]), lanes
"""
PROGRAM = (
    TILES
    + '''
import numpy as np
import structir
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
every = np.arange(2**16, dtype=np.uint16).view(np.float16)
edges = every.astype(np.float32)
middles = (edges[:0x7C00] + edges[1:0x7C01]) / 2
edges = np.concatenate([edges, middles, np.nextafter(middles, 0), np.nextafter(middles, 1e9)])
head = "@R.function\\ndef main(x: R.Tensor(('n',), '{}')):\\n    return R.astype(x, '{}')\\n"
for source, target, values in ("float16", "float32", every), ("float32", "float16", edges):
    main = structir.compile(structir.parse(head.format(source, target)))["main"]
    with np.errstate(over="ignore"):
        wanted = values.astype(target)
    np.testing.assert_array_equal(main(np.array(values)), wanted, err_msg=target)
    assert np.array_equal(np.signbit(main(np.array(values))), np.signbit(wanted))
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
)


@pytest.mark.skipif("avx2" not in dict(llvm.get_host_cpu_features()), reason="code for x86-64")
@pytest.mark.parametrize(
    ("name", "features", "lanes", "program"),
    [
        ("haswell", WIDER, "[8, 8]", TILES),  # the programs run on it by its name alone
        pytest.param("x86-64", PLAIN, "[]", PROGRAM, marks=pytest.mark.exhaustive),
    ],
    ids=["haswell", "x86-64"],
)
def test_programs_for_processors_by_their_features(
    name: str, features: str, lanes: str, program: str
) -> None:
    named = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}
    done = run_with(named, program, lanes)
    assert done.returncode == 0, done.stderr


LANES = {
    "x86-64-v2": [],
    "haswell": [8, 8],
    "skylake-avx512": [16] * 3,
    "icelake-server": [16] * 3,
    "znver4": [16] * 3,
}
NEEDS = {
    "x86-64-v2": {"sse4.2"},
    "haswell": {"avx2"},
    "skylake-avx512": {"avx512bw"},
    "icelake-server": {"avx512vnni"},
    "znver4": {"avx512bf16", "sse4a"},
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", LANES)
def test_programs_for_a_cpu_by_its_name_alone(name: str) -> None:
    if not NEEDS[name] <= {f for f, has in llvm.get_host_cpu_features().items() if has}:
        pytest.skip("this machine cannot execute the code")
    done = run_with({"NUMBA_CPU_NAME": name}, PROGRAM, str(LANES[name]))
    assert done.returncode == 0, done.stderr


CODE_OF_FLOAT16 = """
import llvmlite.binding as llvm
import structir
from structir.targets.cpu.code_generation import module_with_target
from structir.targets.cpu.features import processor
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
text = f'target triple = "{llvm.get_process_triple()}"' + '''
define void @f(ptr noalias %a, ptr noalias %b) {
  %x = load <16 x half>, ptr %a
  %y = load <16 x half>, ptr %b
  %p = fmul contract <16 x half> %x, %x
  %s = fadd contract <16 x half> %p, %y
  store <16 x half> %s, ptr %b
  ret void
}'''
module, machine = module_with_target(text, *processor())
assert "vcvtps2ph" in machine.emit_assembly(module)
"""


@pytest.mark.skipif("avx2" not in dict(llvm.get_host_cpu_features()), reason="code for x86-64")
@pytest.mark.parametrize("name", ["sapphirerapids", "haswell"])
def test_a_product_in_float16_is_rounded(name: str) -> None:
    done = run_with({"NUMBA_CPU_NAME": name}, CODE_OF_FLOAT16)
    assert done.returncode == 0, done.stderr


CODE_OF_NUMBA = """
import re, numba
import structir.targets.cpu.routine_code
from structir.targets.cpu.features import cpu_features
assert "avx512f" not in cpu_features()
@numba.njit(numba.float32[::1](numba.float32[::1]), fastmath=True)
def f(x): return x * x
assert not re.search("zmm", f.inspect_asm(f.signatures[0]))
"""


@pytest.mark.skipif("avx2" not in dict(llvm.get_host_cpu_features()), reason="code for x86-64")
def test_numba_compiles_for_the_named_cpu() -> None:
    done = run_with({"NUMBA_CPU_NAME": "haswell"}, CODE_OF_NUMBA)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"NUMBA_CPU_NAME": "znver99"}, "NUMBA_CPU_NAME: expected a CPU that LLVM has code"),
        ({"NUMBA_CPU_NAME": "help"}, "found 'help'"),
        ({"NUMBA_CPU_FEATURES": "+nonsense"}, "remove `+nonsense`"),
    ],
)
def test_an_unknown_cpu_is_one_error(named: dict[str, str], message: str) -> None:
    program = "from structir.targets.cpu.features import cpu_features; cpu_features()"
    done = run_with(named, program)
    assert done.returncode == 1 and message in done.stderr, done.stderr


RUNS = """
import sys, structir
text = "@R.function\\ndef main(x: R.Tensor((4,), 'float32')):\\n    return R.exp(x)\\n"
executable = structir.compile(structir.parse(text))
executable.save(sys.argv[1])
print("compiled", flush=True)
executable["main"]
"""
ABSENT = [
    f for f, has in llvm.get_host_cpu_features().items() if f in ("avx512fp16", "xop") and not has
]


@pytest.mark.skipif(not ABSENT, reason="every feature is here")
def test_code_for_features_that_are_not_here_compiles_but_does_not_run(tmp_path: Path) -> None:
    done = run_with({"NUMBA_CPU_FEATURES": f"+{ABSENT[0]}"}, RUNS, str(tmp_path / "a.sir"))
    assert done.returncode == 1 and "compiled" in done.stdout, done.stderr
    assert f"remove `+{ABSENT[0]}`" in done.stderr


@pytest.mark.sampled(2)
@pytest.mark.skipif("avx2" not in dict(llvm.get_host_cpu_features()), reason="code for x86-64")
@pytest.mark.parametrize("name", ["sapphirerapids", "bdver4"])
def test_code_for_a_cpu_with_more_features_compiles_but_does_not_run(
    name: str, tmp_path: Path
) -> None:
    program = "from structir.targets.cpu.features import *; host = llvm.get_host_cpu_features()\n"
    program += "print(*sorted(cpu_features() - {f for f in host if host[f]} - UNUSED))"
    missing = run_with({"NUMBA_CPU_NAME": name}, program).stdout.split()
    if not missing:
        pytest.skip("this machine can execute the code")
    done = run_with({"NUMBA_CPU_NAME": name}, RUNS, str(tmp_path / "a.sir"))
    assert done.returncode == 1 and "compiled" in done.stdout, done.stderr
    assert f"found {name}, which has {', '.join(missing)}" in done.stderr


def run_with(named: dict[str, str], program: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in a process of its own, with these variables only."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_CPU")}
    environment |= named | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program, *args]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

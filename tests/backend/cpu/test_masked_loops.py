"""Short loops with masks: which ones have them, and results at all widths."""

import ast
import re

import llvmlite.binding as llvm
import numpy as np
import pytest

import structir
from structir.backend.cpu import independent_loops, masked_loops
from structir.backend.cpu.code_generation import module_with_target
from structir.backend.cpu.features import cpu_features
from structir.backend.cpu.independent_loops import is_independent
from structir.backend.cpu.kernels import kernel_names, translate_library
from structir.backend.cpu.masked_loops import gains_from_masks

PROGRAM = """
@R.function
def main(x: R.Tensor((2, 3, 4, {width}), "float32"), w: R.Tensor((3, 1, 3, 3), "float32")):
    with R.dataflow():
        y = R.nn.relu(R.nn.conv2d(x, w, padding=1, groups=3))
        pooled = R.nn.max_pool2d(x, pool_size=3, strides=1, padding=1)
        total = R.sum(y, axis=[2, 3])
        R.output(y, pooled, total)
    return (y, pooled, total)
"""
SUM = """
def kernel(a, lo, hi):
    wide_vectors()
    p0 = float32_pointer(a[0])
    p1 = float32_pointer(a[1])
    p2 = float32_pointer(a[2])
    for j in range(14):
        p2[j] = p0[j] + p1[j]
"""


def test_loops_with_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masked_loops, "cpu_features", lambda: {"avx512vl"})
    masked = [count for count in range(200) if gains_from_masks(count)]
    assert masked == [5, 6, 7, *range(9, 16), 21, 22, 23, *range(25, 32)]
    monkeypatch.setattr(masked_loops, "cpu_features", lambda: {"avx2"})
    assert not any(map(gains_from_masks, range(200)))


@pytest.mark.parametrize("width", [1, 3, 5, 7, 8, 11, 15, 16, 22, 27, 31])
def test_results_at_each_width(width: int) -> None:
    module = structir.parse(PROGRAM.format(width=width))
    generator = np.random.default_rng(width)
    inputs = [generator.standard_normal(s, "float32") for s in ((2, 3, 4, width), (3, 1, 3, 3))]
    expected = structir.interpret(module, "main", *inputs)
    results = structir.compile(module, num_threads=1)["main"](*inputs)
    for result, each in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, each, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif("avx512vl" not in cpu_features(), reason="masks are for AVX-512")
def test_llvm_is_asked_for_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    hint = "llvm.loop.vectorize.predicate.enable"
    assert llvm_text("with_masks").count(hint) == 1
    monkeypatch.setattr(masked_loops, "cpu_features", lambda: {"avx2"})
    assert hint not in llvm_text("without_masks")


INDEPENDENT = [
    ("p1[v + j] = p0[v + j] + p2[j]", True),
    ("p1[j] = p1[j] * p0[v + j + 1]", True),
    ("x = p0[j]; p1[j] = x; p2[v + j] = x + x", True),
    ("p1[v + j] = p1[v + j + 1]", False),
    ("p1[j] = p0[j]; p1[v + j] = p0[j]", False),
    ("p1[j * 2] = p0[j]", False),
    ("p1[p0[j]] = p2[j]", False),
    ("p1[j + j] = p0[j]", False),
    ("total = total + p0[j]", False),
    ("x = p0[j]", False),
    ("out[j] = p0[j]", False),
    ("p1[v + j] = x0[j]", False),
    ("if p0[j]: p1[j] = p0[j]", False),
]


@pytest.mark.parametrize(("lines", "expected"), INDEPENDENT)
def test_loops_whose_iterations_are_independent(lines: str, expected: bool) -> None:
    body = "\n".join(f"    {line}" for line in lines.split("; "))
    (loop,) = ast.parse(f"for j in range(9):\n{body}\n").body
    assert isinstance(loop, ast.For)
    assert is_independent(loop, {"total"}) is expected


@pytest.mark.parametrize(
    "name", ["znver4", "icelake-server", "skylake-avx512", "haswell", "znver3"]
)
@pytest.mark.parametrize("count", [5, 7, 9, 14, 15])
def test_machine_code_of_short_loops(
    name: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole vectors do most of a loop, with masks or with a few elements after them."""
    is_wide = name not in ("haswell", "znver3")
    for module in (masked_loops, independent_loops):
        features = {"avx2", "avx512vl"} if is_wide else {"avx2"}
        monkeypatch.setattr(module, "cpu_features", lambda features=features: features)
    text = llvm_text(f"short_{count}_{name.replace('-', '_')}", SUM.replace("14", str(count)))
    parsed, machine = module_with_target(text, name, "")
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(parsed, builder)
    code = machine.emit_assembly(parsed)
    singles = len(re.findall(r"vaddss", code))
    assert re.search(r"vaddps.*%[xyz]mm", code)
    assert singles <= (0 if is_wide else count % 4), code


def llvm_text(symbol: str, kernel: str = SUM) -> str:
    """Returns LLVM's text of a sum of two arrays, of 14 elements if not stated otherwise."""
    text: str = translate_library(kernel, symbol, kernel_names()).get_llvm_str()
    return text

"""Short loops with masks: which ones have them, and results at all widths."""

import re
from typing import Any

import numpy as np
import pytest

import structir
from structir.loops.emit import loops, short_loops
from structir.loops.emit.code import ALL_STATEMENTS, code_of
from structir.loops.emit.emitter import Emitter
from structir.loops.emit.independent import is_short_and_independent
from structir.loops.emit.scalars import SCALARS
from structir.loops.emit.short_loops import gains_from_masks
from structir.targets.cpu.code_generation import ROLLED_LOOPS, module_with_target, pass_builder
from structir.targets.cpu.features import cpu_features

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
@I.kernel
def add(
    x: R.Tensor((14,), "float32"), y: R.Tensor((14,), "float32"), z: R.Tensor((14,), "float32")
):
    for j in range(14):
        z[j] = x[j] + y[j]
"""


def test_loops_with_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_loops, "cpu_features", lambda: {"avx512vl"})
    masked = [count for count in range(200) if gains_from_masks(count)]
    assert masked == [5, 6, 7, *range(9, 16), 21, 22, 23, *range(25, 32)]
    monkeypatch.setattr(short_loops, "cpu_features", lambda: {"avx2"})
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
    assert llvm_text().count(hint) == 1
    monkeypatch.setattr(short_loops, "cpu_features", lambda: {"avx2"})
    assert hint not in llvm_text()


INDEPENDENT = [
    ("z[v + j] = x[v + j] + y[j]", True),
    ("z[j] = z[j] * x[v + j + 1]", True),
    ("w = x[j]; z[j] = w; y[v + j] = w + w", True),
    ("z[v + j] = z[v + j + 1]", False),
    ("z[j] = x[j]; z[v + j] = x[j]", False),
    ("z[j * 2] = x[j]", False),
    ("z[T.int64(x[j])] = y[j]", False),
    ("z[j + j] = x[j]", False),
    ("total = total + x[j]", False),
    ("w = x[j]", False),
    ("if x[j] > 0.0: z[j] = x[j]", False),
]


@pytest.mark.parametrize(("lines", "expected"), INDEPENDENT)
def test_loops_whose_iterations_are_independent(lines: str, expected: bool) -> None:
    body = "\n        ".join(["for j in range(9):", *[f"    {line}" for line in lines.split("; ")]])
    start = "v = 3\n    total = T.float32(0.0)\n    z[0] = 0.0\n    for j"
    text = SUM.partition("for j")[0].replace("14", "20") + start + body.removeprefix("for j")
    kernel: Any = structir.parse(text.replace("\n            ", "\n        "))["add"]
    emitter = Emitter(kernel, ALL_STATEMENTS, SCALARS, frozenset(), is_generated=True)
    assert is_short_and_independent(emitter, kernel.body[-1], 9) is expected


def test_iterations_that_write_one_element_are_dependent() -> None:
    text = SUM.replace("(14,)", "()").replace("[j]", "[()]")
    kernel: Any = structir.parse(text)["add"]
    emitter = Emitter(kernel, ALL_STATEMENTS, SCALARS, frozenset(), is_generated=True)
    assert not is_short_and_independent(emitter, kernel.body[-1], 14)


@pytest.mark.parametrize(
    "name", ["znver4", "icelake-server", "skylake-avx512", "haswell", "znver3"]
)
@pytest.mark.parametrize("count", [5, 7, 9, 14, 15])
def test_machine_code_of_short_loops(
    name: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole vectors do most of a loop, with masks or with a few elements after them."""
    is_wide = name not in ("haswell", "znver3")
    features = {"avx2", "avx512vl"} if is_wide else {"avx2"}
    for module in (short_loops, loops):
        monkeypatch.setattr(module, "cpu_features", lambda: features)
    code = code_for(name, SUM.replace("14", str(count)))
    singles = len(re.findall(r"vaddss", code))
    assert re.search(r"vaddps.*%[xyz]mm", code)
    assert singles <= (0 if is_wide else count % 4), code


@pytest.mark.parametrize(
    ("name", "vectors"),
    [("x86-64-v2", 4), ("haswell", 2), ("znver3", 2), ("icelake-server", 1), ("znver4", 1)],
)
def test_short_loops_of_several_vectors_are_unrolled(
    name: str, vectors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop that LLVM must not unroll before it is vectorized is unrolled afterwards."""
    known = {"x86-64-v2": set[str](), "haswell": {"avx2"}, "znver3": {"avx2"}}
    features = known.get(name, {"avx2", "avx512vl"})
    for module in (short_loops, loops):
        monkeypatch.setattr(module, "cpu_features", lambda: features)
    code = code_for(name, SUM.replace("14", "16"))
    assert len(re.findall(r"addps", code)) <= 16 // 4
    assert len(re.findall(r"addps", code)) >= vectors
    assert not re.search(r"addss|\tj[a-z]+\t", code), code


@pytest.mark.parametrize("name", ["znver4", "icelake-server", "haswell", "znver3"])
def test_vectors_of_long_loops_are_unrolled_wholly_or_not_at_all(name: str) -> None:
    """LLVM unrolled a loop that computes much in part, and one that copies."""
    much = "(x[j] - y[j]) * x[j] * y[j] + x[j] / y[j]"
    for value, length in ((much, "384"), ("x[j]", "1024")):
        kernel = SUM.replace("x[j] + y[j]", value).replace("14", length)
        assert 1 <= stores(code_for(name, kernel)) <= 4
    sums = code_for(name, SUM.replace("14", "128"))
    assert stores(sums) == 128 // (8 if name in ("haswell", "znver3") else 16)
    assert not re.search(r"\tj[a-z]+\t", sums), sums


def test_loops_that_llvm_may_not_vectorize_are_unrolled() -> None:
    independent, recurrence = "z[j] = x[j] + y[j]", "z[j + 1] = z[j] + y[j]"
    texts = [llvm_text(SUM.replace("14", n)) for n in ("384", "14")]
    texts += [llvm_text(SUM.replace("14", "384").replace(independent, recurrence))]
    assert [ROLLED_LOOPS in text for text in texts] == [True, False, False]


def stores(code: str) -> int:
    """Returns the number of stores of vectors."""
    return len(re.findall(r"\tvmov[au]p[sd]\t%[yz]mm\d+, ", code))


def code_for(name: str, kernel: str) -> str:
    """Returns the machine code of a kernel for a CPU."""
    text = llvm_text(kernel)
    parsed, machine = module_with_target(text, name, "")
    builder = pass_builder(machine, True, loop_unrolling=ROLLED_LOOPS not in text)
    builder.getModulePassManager().run(parsed, builder)
    return machine.emit_assembly(parsed)  # type: ignore[no-any-return]


def llvm_text(kernel: str = SUM) -> str:
    """Returns LLVM's text of a sum of two arrays, of 14 elements if not stated otherwise."""
    add: Any = structir.parse(kernel)["add"]
    return code_of(add, is_generated=True).assembled.text

"""Kernels that differ only in numbers share their source and keep their results."""

from __future__ import annotations

import numpy as np
import pytest

import structir
from structir.backend.loops.shared import HEAD, shared
from structir.backend.loops.writer import KernelText
from structir.backend.outline import outline
from structir.ir.module import IRModule
from structir.passes import bind_params
from structir.script import R

BODY = "    for r in range(lo, hi):\n"
SCALED = """def kernel(a, lo, hi):
    p0 = float32_pointer(a[0])
    p1 = float32_pointer(a[17])
{body}        r1 = r % {width}
        for j in range({width}):
            p1[r * {width} + j] = p0[r1 + j // {divisor} + {step}] * float32({scale})
"""


def text(width: int = 64, divisor: int = 7, step: int = 1, scale: str = "0.5") -> KernelText:
    said = SCALED.format(body=BODY, width=width, divisor=divisor, step=step, scale=scale)
    return KernelText(said, (), (), 1)


def shared_texts(*kernels: KernelText) -> list[str]:
    return list(dict.fromkeys(k.text for k in shared(kernels)))


def test_numbers_that_differ_come_from_the_table() -> None:
    first, second = shared([text(64, scale="-0.0"), text(192, scale="1e-05")])
    assert first.text == second.text
    assert (first.sizes[0], second.sizes[0]) == (64, 192)
    bits = np.array([first.sizes[1], second.sizes[1]], np.int32)
    assert np.signbit(bits.view(np.float32)[0])
    assert bits.view(np.float32)[1] == np.float32(1e-05)
    assert first.text.count("n0") == 4  # where it is read, and wherever it was written
    assert "single_of_bits(int32(a[1]))" in first.text
    assert first.singles == 1


@pytest.mark.parametrize(
    "other",
    [{"step": 2}, {"divisor": 70}, {"width": 8}],
    ids=["small numbers", "divisors of elements", "short loops"],
)
def test_numbers_that_shape_the_code_stay(other: dict[str, int]) -> None:
    assert len(shared_texts(text(divisor=60), text(**{"divisor": 60, **other}))) == 2


def test_how_often_a_loop_runs_comes_from_the_table() -> None:
    inner = "            for j in range(8):\n                p1[j] = p0[j]\n"
    texts = [
        KernelText(f"{HEAD}{BODY}        for q in range({count}):\n{inner}", (), (), 1)
        for count in (2, 3)
    ]
    (found,) = shared_texts(*texts)
    assert "for q in range(n0):" in found
    assert "for j in range(8):" in found


TABLE = """def kernel(a, lo, hi):
    p0 = int64_pointer(a[0])
    p1 = float32_pointer(a[1])
    at = 0
    for u0 in range({height}):
        for u1 in range({width}):
            p0[at] = ({row} * u0 + u1)
            at += 1
    for g in range(lo, hi):
        multiply_windows((p1, p1, p0, {height}))
        for j in range({inner}):
            p1[g + j] = p1[j] * float32(2.0)
"""


def table_text(height: int, width: int, inner: int = 8) -> KernelText:
    said = TABLE.format(height=height, width=width, row=width + 2, inner=inner)
    return KernelText(said, (), (), 1)


def test_small_numbers_of_tables_and_of_calls_come_from_the_table() -> None:
    first, second = shared([table_text(14, 14), table_text(7, 5)])
    assert first.text == second.text
    assert (first.sizes, second.sizes) == ((14, 14, 16), (7, 5, 7))


def test_loops_beside_a_table_keep_their_small_numbers() -> None:
    assert len(shared_texts(table_text(14, 14, 8), table_text(7, 5, 4))) == 2


def test_common_numbers_remain_constants() -> None:
    (found,) = shared_texts(text(scale="0.25"), text(scale="0.75"))
    assert "range(64)" in found


def test_lone_and_equal_kernels_stay_as_they_are() -> None:
    lone = text()
    assert shared([lone, lone]) == (lone, lone)


@R.function
def layers(x: R.Tensor(("b", "n", 96), "float32"), y: R.Tensor(("b", "m", 160), "float32")):
    wide = R.nn.softmax(x * 1.25 + 0.5, axis=-1)
    wider = R.nn.softmax(y * -3.5 + 1e-05, axis=-1)
    return wide, wider


MODULE = IRModule({"main": layers})


def test_layers_of_other_widths_and_scales_are_one_kernel() -> None:
    exe = structir.compile(MODULE)
    assert exe.kernel_count == 1
    draw = np.random.default_rng(0).standard_normal
    x, y = draw((2, 3, 96), np.float32), draw((2, 5, 160), np.float32)
    for found, expected in zip(
        exe["main"](x, y), structir.interpret(MODULE, "main", x, y), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert "-3.5" in exe.source()
    assert "1e-05" in exe.source()
    assert "160" in exe.source()


@R.function
def images(
    x: R.Tensor((1, 16, 30, 30), "float32"),
    y: R.Tensor((1, 16, 16, 16), "float32"),
    w: R.Tensor((16, 16, 3, 3), "float32"),
):
    return R.max(R.nn.conv2d(x, w), axis=(2, 3)), R.max(R.nn.conv2d(y, w), axis=(2, 3))


def test_convolutions_of_other_sizes_are_one_kernel() -> None:
    weights = np.random.default_rng(0).standard_normal((16, 16, 3, 3), np.float32)
    module = bind_params(values={"w": weights})(IRModule({"main": images}))
    exe = structir.compile(module)
    assert exe.kernel_count == 1
    draw = np.random.default_rng(1).standard_normal
    args = draw((1, 16, 30, 30), np.float32), draw((1, 16, 16, 16), np.float32)
    for found, expected in zip(
        exe["main"](*args), structir.interpret(module, "main", *args), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_products_and_transposes_of_other_sizes_have_the_same_code() -> None:
    @R.function
    def main(
        x: R.Tensor((40, 64), "float32"),
        y: R.Tensor((64, 72), "float32"),
        z: R.Tensor((72, 30), "float32"),
    ):
        first = R.matmul(x, y)
        second = R.matmul(first, z)
        return second, R.permute_dims(first), R.permute_dims(second)

    module = IRModule({"main": main})
    executable = structir.compile(module)
    codes = [k.text.text.partition("\n")[0] for k in outline(module, "main").kernels]
    assert len(codes) == 4
    assert len(set(codes)) == 2
    x, y, z = [np.ones(shape, "float32") for shape in ((40, 64), (64, 72), (72, 30))]
    second, *transposed = executable["main"](x, y, z)
    np.testing.assert_array_equal(second, x @ y @ z)
    np.testing.assert_array_equal(transposed[1], second.T)

"""Kernels that differ only in numbers share their source and keep their results."""

from __future__ import annotations

import numpy as np

import structir
from structir.ir.module import IRModule
from structir.passes import bind_params
from structir.runtime.outline import outline
from structir.script import R


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
    first, second = [kernel.text.sizes for kernel in outline(module, "main").kernels]
    assert first and all(a != b for a, b in zip(first, second, strict=True))  # others are constants
    draw = np.random.default_rng(1).standard_normal
    args = draw((1, 16, 30, 30), np.float32), draw((1, 16, 16, 16), np.float32)
    for found, expected in zip(
        exe["main"](*args), structir.interpret(module, "main", *args), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_products_and_transposes_of_other_sizes_have_the_same_code() -> None:
    # so few columns are no blocks of their own, with any length of vectors
    @R.function
    def main(
        x: R.Tensor((40, 64), "float32"),
        y: R.Tensor((64, 30), "float32"),
        z: R.Tensor((30, 22), "float32"),
    ):
        first = R.matmul(x, y)
        second = R.matmul(first, z)
        return second, R.permute_dims(first), R.permute_dims(second)

    module = IRModule({"main": main})
    executable = structir.compile(module)
    codes = [k.text.text.partition("\n")[0] for k in outline(module, "main").kernels]
    assert len(codes) == 4
    assert len(set(codes)) == 2
    x, y, z = [np.ones(shape, "float32") for shape in ((40, 64), (64, 30), (30, 22))]
    second, *transposed = executable["main"](x, y, z)
    np.testing.assert_array_equal(second, x @ y @ z)
    np.testing.assert_array_equal(transposed[1], second.T)


def test_blocks_of_other_numbers_of_rows_have_the_same_code() -> None:
    """Numbers in the ends of blocks are in the table, even small ones."""

    @R.function
    def main(
        x: R.Tensor((1, 24, 48, 44), "float32"),
        y: R.Tensor((1, 24, 48, 40), "float32"),
        v: R.Tensor((64, 24, 1, 1), "float32"),
        w: R.Tensor((80, 24, 1, 1), "float32"),
    ):
        return R.nn.relu(R.nn.conv2d(x, v)), R.nn.relu(R.nn.conv2d(y, w))

    module = IRModule({"main": main})
    assert len({k.text.text.partition("\n")[0] for k in outline(module, "main").kernels}) == 1
    draw = np.random.default_rng(1).standard_normal
    shapes = [(1, 24, 48, 44), (1, 24, 48, 40), (64, 24, 1, 1), (80, 24, 1, 1)]
    args = [draw(shape, np.float32) for shape in shapes]
    results = structir.compile(module)["main"](*args)
    for result, expected in zip(results, structir.interpret(module, "main", *args), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)

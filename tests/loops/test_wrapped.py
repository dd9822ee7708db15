"""Rolls and borders are copied in runs along the last axis, equal to NumPy."""

import numpy as np
import pytest

import structir
from structir.loops.rewrite.wrapped import Run, runs_of

TEXT = '@R.function\ndef main(x: R.Tensor(({shape}), "float32")):\n    return {result}\n'
MODES = {"reflect": "reflect", "edge": "edge", "circular": "wrap"}


def compiled(shape: str, result: str):
    return structir.compile(structir.parse(TEXT.format(shape=shape, result=result)))


@pytest.mark.parametrize("shift", [1, -1, 6, 9, 10, 23, 0])
def test_rolls(shift):
    exe = compiled('"n", 10', f"R.roll(x, {shift}, axis=1)")
    x = np.random.default_rng(0).standard_normal((3, 10)).astype("float32")
    np.testing.assert_array_equal(exe["main"](x), np.roll(x, shift, 1))
    assert "%" not in exe.source()


def test_a_roll_in_a_sum():
    ramp = 'R.arange(0, 10, 1, dtype="float32")'
    exe = compiled('"n", 10', f"R.add(R.roll(R.exp(x), 3, axis=1), R.multiply(x, {ramp}))")
    x = np.random.default_rng(0).standard_normal((3, 10)).astype("float32")
    expected = np.roll(np.exp(x), 3, 1) + x * np.arange(10, dtype="float32")
    np.testing.assert_allclose(exe["main"](x), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("before, after", [(1, 2), (3, 0), (9, 9)])
def test_borders(mode, before, after):
    width = (0, 0, 1, 2, before, after)
    exe = compiled('"n", 3, 10', f'R.nn.pad(x, pad_width={width}, pad_mode="{mode}")')
    x = np.random.default_rng(0).standard_normal((2, 3, 10)).astype("float32")
    expected = np.pad(x, ((0, 0), (1, 2), (before, after)), mode=MODES[mode])
    np.testing.assert_array_equal(exe["main"](x), expected)


def test_runs():
    assert runs_of([]) == []
    assert runs_of([7]) == [Run(0, 1, 7, 0)]
    assert runs_of([2, 1, 0, 1, 2, 3]) == [Run(0, 3, 2, -1), Run(3, 3, 1, 1)]
    assert runs_of([0, 0, 0, 1, 2]) == [Run(0, 3, 0, 0), Run(3, 2, 1, 1)]

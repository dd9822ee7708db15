"""Copies of ragged rows in whole vectors, against NumPy row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import structir
from structir import RaggedArray
from structir.loops.regions.row_copies import CHUNK, SHORT, VECTORS

LENGTHS = [
    0,
    1,
    3,
    7,
    8,
    9,
    19,
    20,
    21,
    31,
    32,
    33,
    39,
    40,
    41,
    63,
    64,
    65,
    100,
    159,
    160,
    161,
    700,
]
BODIES = {
    "twice": "R.concat((x, x), axis=1)",
    "both": "R.concat((x, y), axis=1)",
    "thrice": "R.concat((x, x, x), axis=1)",
    "twice and once": "R.concat((y, y, x), axis=1)",
}
ORDERS = {"twice": "xx", "both": "xy", "thrice": "xxx", "twice and once": "yyx"}


def compiled(name: str, dtype: str, inner: str = "") -> Any:
    params = [f'{n}: R.Tensor(("n", "*"{inner}), "{dtype}")' for n in "xy"]
    text = f"@R.function\ndef main({', '.join(params)}):\n    return {BODIES[name]}\n"
    return structir.compile(structir.parse(text), num_threads=1)


def rows(lengths: Any, dtype: str, inner: tuple[int, ...], seed: int) -> RaggedArray:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2 if dtype == "bool" else 100, (sum(lengths), *inner)).astype(dtype)
    return RaggedArray(values, np.cumsum([0, *lengths]))


@pytest.mark.parametrize("inner", [(), (3,)])
@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float32", "float64"])
@pytest.mark.parametrize("name", BODIES)
def test_concatenated_rows_match_numpy(name: str, dtype: str, inner: tuple[int, ...]) -> None:
    main = compiled(name, dtype, "".join([f", {n}" for n in inner]))["main"]
    rng = np.random.default_rng(0)
    layouts = [LENGTHS, LENGTHS[::-1], [5] * 40, [40] * 9, [41] * 9, [0] * 3, [200, 1, 1], [1]]
    for lengths in layouts:
        x = rows(lengths, dtype, inner, 1)
        y = rows(rng.permutation(lengths), dtype, inner, 2)
        result = main(x, y)
        arrays = {"x": x.to_list(), "y": y.to_list()}
        for k, row in enumerate(result.to_list()):
            expected = [np.asarray(arrays[n][k]).reshape(-1, *inner) for n in ORDERS[name]]
            np.testing.assert_array_equal(
                np.asarray(row).reshape(-1, *inner), np.concatenate(expected)
            )


def test_short_rows_are_copied_without_a_loop() -> None:
    elements = SHORT * CHUNK // VECTORS // 4
    assert f"<= {elements}:" in compiled("twice", "float32").source("main")

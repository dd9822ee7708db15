"""Copies of ragged rows in whole vectors, against NumPy row by row."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import structir
from structir import RaggedArray
from structir.ir.dtype import numpy_dtype
from structir.loops.regions.row_copies import CHUNK, SHORT, VECTORS

# of rows shorter and longer than a vector, a chunk and a short row of each dtype
LENGTHS = [0, 1, 3, *range(7, 10), *range(15, 26), *range(31, 34), *range(39, 42), *range(47, 50)]
LENGTHS += [*range(63, 66), 100, *range(159, 162), 700]
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
    numbers = rng.integers(0, 2 if dtype == "bool" else 100, (sum(lengths), *inner))
    values = numbers.astype(numpy_dtype(dtype))
    return RaggedArray(values, np.cumsum([0, *lengths]))


@pytest.mark.parametrize("inner", [(), (3,), ("k",)])
@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", BODIES)
def test_concatenated_rows_match_numpy(name: str, dtype: str, inner: tuple[int, ...]) -> None:
    sizes = "".join([f', "{n}"' if n == "k" else f", {n}" for n in inner])
    main = compiled(name, dtype, sizes)["main"]
    inner = tuple([2 if n == "k" else n for n in inner])
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


def test_starts_and_limits_of_joined_rows_are_sums() -> None:
    """They are neither computed one after another nor checked again."""
    assert "cumsum" not in compiled("twice and once", "float32").source("main")
    result = compiled("both", "int8")["main"](
        rows([3, 0, 2], "int8", (), 1), RaggedArray.from_rows([[], [1], [2, 3]], "int8")
    )
    assert result.offsets.tolist() == [0, 3, 4, 8]


GUARDED = """
import ctypes, mmap, sys
import numpy as np
import structir

def at_end(array):
    # a copy whose last byte is the last one before a page that cannot be read
    page = mmap.PAGESIZE
    pages = -(-array.nbytes // page)
    memory = mmap.mmap(-1, (pages + 1) * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(start + pages * page), page, 0) == 0
    size = pages * page
    place = np.frombuffer(memory, np.uint8, array.nbytes, size - array.nbytes)
    copy = place.view(array.dtype).reshape(array.shape)
    copy[...] = array
    kept.append(memory)
    return copy

kept = []
rng = np.random.default_rng(0)
head = '@R.function\\ndef main(x: R.Tensor(("n", "*"{}), "{}")):\\n    return {}\\n'
bodies = ["R.concat((x, x), axis=1)", "R.concat((x, x, x), axis=1)", "R.sum(x, axis=1)"]
bodies += ["R.max(x, axis=1)", "R.nn.softmax(x, axis=1)", "R.multiply(x, x)"]
for dtype, inner in ("float32", ()), ("float64", ()), ("float16", ()), ("float32", (16,)):
    for body in bodies:
        text = head.format("".join([f", {n}" for n in inner]), dtype, body)
        module = structir.parse(text)
        main = structir.compile(module, num_threads=1)["main"]
        for last in (0, 1, 7, 8, 16, 17, 40, 41, 65, 200):
            offsets = np.cumsum([0, *rng.integers(0, 90, 12), last])
            values = rng.standard_normal((offsets[-1], *inner)).astype(dtype)
            x = structir.RaggedArray(at_end(values), offsets)
            plain = structir.RaggedArray(values, offsets)
            result, wanted = main(x), structir.interpret(module, "main", plain)
            result, wanted = [getattr(r, "values", r) for r in (result, wanted)]
            tolerance = 1e-2 if dtype == "float16" else 1e-5
            np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance)
print("done")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="protects a page with mprotect")
def test_nothing_is_read_behind_the_last_row() -> None:
    done = subprocess.run([sys.executable, "-c", GUARDED], capture_output=True, text=True)
    assert done.stdout.strip() == "done", done.stderr[-2000:]

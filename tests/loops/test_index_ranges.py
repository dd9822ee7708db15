"""Indices out of range, and splits with empty sections: one result, interpreted and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import structir
from structir.errors import ShapeMismatchError

INDICES = [0, 1, 2, 3, -1, -3, 5, 2**31, 2**63 - 1, -(2**63)]
X = np.arange(12).reshape(3, 4) + 1
READS = [
    *[
        f'R.take(z, i, axis={axis}, mode="{m}")'
        for axis in (0, 1)
        for m in ("fast", "clip", "wrap")
    ],
    'R.take(R.reshape(z, (-1,)), R.add(i, i), mode="fast")',
    'R.add(R.take(z, i, axis=0, mode="fast"), R.const(7, "int64"))',
    "R.gather_elements(z, h, axis=0)",
    "R.gather_elements(z, R.permute_dims(h), axis=1)",
    "R.gather_nd(z, R.expand_dims(i, axis=[1]))",
    "R.gather_nd(z, R.stack((i, i), axis=1))",
    "R.index_tensor(z, [i])",
    "R.index_tensor(z, [i, i])",
    'R.scatter_elements(z, h, h, axis=0, reduction="add")',
    "R.index_put(z, (i,), h)",
]


def outcome(run: Any, *args: Any) -> list[Any]:
    """Returns the shapes and elements of the results, or the first line of the error."""
    try:
        value = run(*args)
    except ShapeMismatchError as error:
        return [str(error).splitlines()[0]]
    values = value if isinstance(value, tuple) else (value,)
    return [(v.shape, v.dtype, v.tolist()) for v in values]


def agree(text: str, *args: Any) -> list[Any]:
    module = structir.parse(text)
    compiled = outcome(structir.compile(module)["main"], *args)
    assert compiled == outcome(structir.interpret, module, "main", *args)
    return compiled


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
@pytest.mark.parametrize("rows", [3, 0])
def test_reads_out_of_range_agree(dtype: str, rows: int) -> None:
    indices = np.asarray(INDICES).astype(dtype)
    reads = (
        READS
        if dtype == "int64"
        else [read for read in READS if "scatter" not in read and "put" not in read]
    )
    results = ", ".join(f"r{k}" for k in range(len(reads)))
    lines = "\n".join(f"    r{k} = {read}" for k, read in enumerate(reads))
    text = f"""
@R.function
def main(x: R.Tensor(("a", "b"), "int64"), i: R.Tensor(("k",), "{dtype}"),
         h: R.Tensor(("k", 4), "{dtype}")):
    z = R.add(x, R.const(1, "int64"))
{lines}
    return ({results})
"""
    agree(text, X[:rows], indices, np.stack([indices] * 4, axis=1))


@pytest.mark.parametrize("dims", ['("m", "n")', '("m", {n})', '("*r", "n")', "ndim=2"])
@pytest.mark.parametrize("sections", ["3", "4", "[2]", "[4]"])
def test_splits_with_empty_sections_agree(dims: str, sections: str) -> None:
    for n in (1, 2, 5):
        shape = dims if dims.startswith("ndim") else f"shape={dims.format(n=n)}"
        text = f"""
@R.function
def main(x: R.Tensor({shape}, dtype="int64")):
    y = R.add(x, x)
    return R.split(y, {sections}, axis=1)
"""
        agree(text, np.arange(2 * n).reshape(2, n))


def test_assumptions_at_a_known_rank_do_not_reject_what_any_rank_accepts() -> None:
    text = """
@R.function
def main(x: R.Tensor(("*r", "n"), "int64")):
    return R.split(x, 3, axis=1)
"""
    shapes = [result[0] for result in agree(text, np.ones((2, 1), np.int64))]
    assert shapes == [(2, 1), (2, 0), (2, 0)]

"""Shifts by invalid amounts mean the same everywhere, also in exported kernels."""

import numpy as np
import pytest

import structir
from structir import passes

PROGRAM = """
@R.function
def main(x: R.Tensor(("n",), "{0}"), y: R.Tensor(("n",), "{0}")):
    with R.dataflow():
        z = (R.left_shift(x, y), R.right_shift(x, y))
        R.output(z)
    return z
"""


def shifted(x: int, count: int, bits: int) -> tuple[int, int]:
    if not 0 <= count < bits:
        return 0, -1 if x < 0 else 0
    return x << count, x >> count


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
def test_counts_beyond_the_number(dtype):
    info = np.iinfo(dtype)
    ends = [info.min, info.max, 0, 1, 5]
    counts = [0, 1, 7, 8, 31, 33, 63, 64, 70, 100, *((-1, -64, info.min) if info.min else ())]
    x, y = (np.array(v, dtype) for v in zip(*[(e, c) for e in ends for c in counts], strict=True))
    pairs = [shifted(a, b, info.bits) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    mask = (1 << info.bits) - 1
    low = [np.array([v[k] & mask for v in pairs], f"uint{info.bits}").view(dtype) for k in (0, 1)]
    module = structir.parse(PROGRAM.format(dtype))
    text = passes.Schedule()(module).script()
    assert " << " in text and " >> " in text
    shown = structir.parse(text)
    for found in (
        structir.interpret(module, "main", x, y),
        structir.compile(module)["main"](x, y),
        structir.compile(shown)["main"](x, y),
    ):
        np.testing.assert_array_equal(found[0], low[0])
        np.testing.assert_array_equal(found[1], low[1])

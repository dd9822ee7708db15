"""Functions of ragged tensors in shards of rows equal the unsharded functions, or are rejected."""

import numpy as np
import pytest

import structir
from structir.distributed import shard
from structir.distributed.ragged_rows import balanced_blocks
from structir.errors import DiagnosticError
from structir.ir.module import IRModule
from structir.ir.ragged_array import RaggedArray

RNG = np.random.default_rng(7)
PARAMS = """x: R.Tensor(("n", "*", 4), "float32"), d: R.Tensor(("n", 1, 4), "float32"),
    w: R.Tensor((4, 3), "float32")"""
LENGTHS = (2, 0, 5, 1, 8, 1)


def program(body: str) -> IRModule:
    lines = "\n    ".join(body.split("; "))
    return structir.parse(f"@R.function\ndef main({PARAMS}):\n    {lines}\n    return y\n")


def arguments(lengths: tuple[int, ...]) -> tuple[object, ...]:
    rows = [RNG.standard_normal((k, 4), dtype="float32") for k in lengths]
    dense = RNG.standard_normal((len(lengths), 1, 4), dtype="float32")
    return RaggedArray.from_rows(rows, "float32", inner=1), dense, np.ones((4, 3), "float32")


@pytest.mark.parametrize(
    "body",
    [
        "y = R.exp(R.add(x, d))",
        "y = R.sum(x, axis=1)",
        "y = R.matmul(R.nn.softmax(x, axis=1), w)",
        "a = R.concat((x, x), axis=1); b = R.max(a, axis=2, keepdims=True); y = (a, b)",
    ],
)
def test_shards_of_rows_equal_the_unsharded_function(body: str) -> None:
    module = program(body)
    for lengths, workers in ((LENGTHS, 3), (LENGTHS, 40), ((4,), 2)):
        values = arguments(lengths)
        expected, actual = (
            structir.interpret(module, "main", *values),
            shard(module, workers=workers)(*values),
        )
        wrapped = isinstance(expected, tuple)
        pairs = zip(actual, expected, strict=True) if wrapped else [(actual, expected)]
        for a, b in pairs:
            if isinstance(b, RaggedArray):
                np.testing.assert_array_equal(a.offsets, b.offsets)
                a, b = a.values, b.values
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "body",
    [
        "m = R.sum(x); y = R.subtract(x, m)",
        "y = R.flip(d, axis=0)",
        "y = R.cumsum(d, axis=0)",
        "y = R.nn.softmax(d, axis=0)",
        "e = R.reshape(d, (n, 4)); y = R.tril(e)",
        "y = R.sum(x, axis=[0, 1])",
        "y = R.ragged.row_starts(x)",
        "s = R.sum(R.sum(x, axis=1), axis=0); e = R.exp(s); y = R.add(d, e)",
    ],
)
def test_functions_across_rows_are_rejected(body: str) -> None:
    module = program(body.replace("(n, 4)", "(-1, 4)"))
    with pytest.raises(DiagnosticError, match="E1122"):
        shard(module, workers=2)(*arguments(LENGTHS))


def test_ragged_tensors_in_tuples_are_rejected() -> None:
    module = structir.parse("""
@R.function
def main(p: R.Tuple(R.Tensor(("n", "*"), "float32"), R.Tensor(("n", "*"), "float32"))):
    return R.exp(p[0])
""")
    x = RaggedArray(np.ones(3, "float32"), [0, 1, 3])
    with pytest.raises(DiagnosticError, match="found the tuple `p`"):
        shard(module, workers=2)((x, x))


def test_blocks_balance_elements() -> None:
    lengths = [1] * 90 + [30, 30, 30]
    array = RaggedArray(np.zeros(180), np.concatenate([[0], np.cumsum(lengths)]))
    assert balanced_blocks([array], 2) == [(0, 90), (90, 93)]
    assert balanced_blocks([RaggedArray(np.zeros(0), [0])], 3) == [(0, 0)]

"""Maxima and minima of loops, with NaN at any place, agree with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import structir
from structir.ir.expr import Var
from structir.ir.kernel import Apply, Assign, Element, For, Literal, Local, LoopVariable
from structir.ir.struct_info import TensorStructInfo
from structir.loops.emit.extremes import extremes_apart

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45]
LENGTHS = [1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 47, 64, 65, 100, 257]


def values(rng: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Random numbers, some of them special."""
    x = rng.standard_normal(shape) * 3
    places = rng.random(shape) < 0.08
    x[places] = rng.choice(SPECIAL, int(places.sum()))
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def compiled(body: str, shape: str, dtype: str) -> Any:
    text = f'@R.function\ndef main(x: R.Tensor({shape}, "{dtype}")):\n    return {body}\n'
    return structir.compile(structir.parse(text), num_threads=1)["main"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_reductions_agree_with_numpy(op: str, axis: int | None, dtype: str) -> None:
    main = compiled(f"R.{op}(x, axis={axis})", '("n", "m")', dtype)
    rng = np.random.default_rng(1)
    for n in LENGTHS:
        for shape in ((n, 9), (9, n)):
            x = values(rng, shape, dtype)
            expected = getattr(np, op)(x, axis=axis)
            np.testing.assert_array_equal(main(x), expected)


@pytest.mark.parametrize("op", ["max", "min"])
def test_nan_at_each_place(op: str) -> None:
    main = compiled(f"R.{op}(x, axis=1)", '("n", "m")', "float32")
    rng = np.random.default_rng(2)
    for m in LENGTHS:
        x = rng.standard_normal((m + 1, m)).astype("float32")
        x[np.arange(m), np.arange(m)] = np.nan
        result = main(x)
        assert np.isnan(result[:-1]).all()
        assert result[-1] == getattr(np, op)(x[-1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("op", ["max", "min"])
def test_ragged_rows(op: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    main = compiled(f"R.{op}(x, axis=1)", '("n", "*")', dtype)
    number = structir.interpret  # rows without values have the identity
    lengths = rng.permutation([0, *LENGTHS * 3])
    offsets = np.cumsum([0, *lengths])
    x = values(rng, (offsets[-1],), "float32")
    if dtype == "bfloat16":
        ml_dtypes = pytest.importorskip("ml_dtypes")
        x = x.astype(ml_dtypes.bfloat16)
    else:
        with np.errstate(all="ignore"):
            x = x.astype(dtype)
    rows = structir.RaggedArray(x, offsets)
    text = f'@R.function\ndef main(x: R.Tensor(("n", "*"), "{dtype}")):\n'
    module = structir.parse(f"{text}    return R.{op}(x, axis=1)\n")
    result, expected = main(rows), number(module, "main", rows)
    np.testing.assert_array_equal(np.asarray(result, "float64"), np.asarray(expected, "float64"))


@pytest.mark.parametrize(
    "body", ["R.nn.softmax(x, axis=1)", "R.subtract(x, R.max(x, axis=1, keepdims=True))"]
)
def test_fused_reductions(body: str) -> None:
    text = f'@R.function\ndef main(x: R.Tensor(("n", "m"), "float32")):\n    return {body}\n'
    module = structir.parse(text)
    main = structir.compile(module, num_threads=1)["main"]
    rng = np.random.default_rng(4)
    for m in LENGTHS:
        x = values(rng, (6, m), "float32")
        with np.errstate(all="ignore"):
            expected = structir.interpret(module, "main", x)
        np.testing.assert_allclose(main(x), expected, rtol=1e-5, atol=1e-6)


X = Var("x", TensorStructInfo((8,), "float32"))
K, TOTAL = LoopVariable("k", "int64"), Local("t", "float32")
TERM = Element(X, (K,), "float32")


def loop(*statements: Assign) -> For:
    return For(K, Literal(0, "int64"), Literal(8, "int64"), 1, statements)


def largest(total: Local = TOTAL) -> Assign:
    return Assign(total, Apply("maximum", (total, TERM), "float32"))


def test_loops_that_are_taken_apart() -> None:
    apart = extremes_apart(loop(largest()))
    assert apart is not None
    functions = [s.value.fn for s in apart.loop.body[1:]]  # type: ignore[attr-defined]
    assert functions == ["largest", "bitor"]
    other = Local("other", "float32")
    assert extremes_apart(loop(Assign(TOTAL, TERM))) is None
    assert extremes_apart(loop(largest(), Assign(other, TOTAL))) is None  # a running maximum
    assert extremes_apart(loop(largest(), largest())) is None

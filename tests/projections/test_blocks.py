"""Scalar expressions evaluated in blocks, as they are evaluated at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from structir.ir import dims
from structir.projections import blocks
from structir.projections.blocks import evaluate_in_blocks
from structir.projections.scalar_expr import LoopIndex, OperandElement, ScalarOp, exp, select
from structir.projections.values import EvaluationPoint, evaluate

X, Y = OperandElement("x"), OperandElement("y")
INDEX = LoopIndex(dims.as_sym(dims.sym("i")))
EXPRESSIONS = [
    exp(X) * Y + 1,
    select(X > Y, X, 0.5 * Y),
    X + 2 * INDEX,
    ScalarOp("sigmoid", (X,)),
    (X > Y) + X,
]


@given(
    st.sampled_from(EXPRESSIONS),
    st.lists(st.integers(0, 7), min_size=1, max_size=3),
    st.data(),
)
def test_blocks_are_evaluated_as_the_whole(expr, shape, data):
    generator = np.random.default_rng(0)
    shapes = [[n if data.draw(st.booleans()) else 1 for n in shape] for _ in "xy"]
    values = {
        name: generator.standard_normal(s).astype(data.draw(st.sampled_from(["f4", "f8", "i8"])))
        for name, s in zip("xy", shapes, strict=True)
    }
    grid = {INDEX.index_var: np.arange(shape[-1]).reshape([1] * (len(shape) - 1) + [-1])}
    at = EvaluationPoint(values, grid)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "LEAST", 2)
        patch.setattr(blocks, "BLOCK", 3)
        patch.setattr(blocks, "FEWEST", 1)
        actual = evaluate_in_blocks(expr, at)
    expected = evaluate(expr, at)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sigmoid_of_all_magnitudes(dtype):
    x = np.array([0, 1, -1, 5, -5, 80, -80, -87, -90, -103, -700, -709, -745, 1e30, -1e30], dtype)
    x = np.concatenate([x, np.array([np.inf, -np.inf, np.nan], dtype)])
    actual = evaluate(ScalarOp("sigmoid", (X,)), EvaluationPoint({"x": x}))
    assert actual.dtype == dtype
    tiny = np.finfo(dtype).smallest_subnormal
    expected = special.expit(x.astype("float64"))
    np.testing.assert_allclose(actual, expected, 8 * np.finfo(dtype).eps, 2 * tiny)

"""Names that scripts of JAX use around their functions."""

from typing import Any

import numpy as np
import pytest

import structir
import structir.numpy as jnp
from structir.errors import DiagnosticError

X = np.arange(12, dtype="float32").reshape(3, 4)


def test_shapes_are_evaluated_without_elements() -> None:
    like = structir.ShapeDtypeStruct((3, 4), jnp.float32)
    result = structir.eval_shape(lambda p: {"y": (p["x"] @ p["x"].T).sum(0)}, {"x": like})["y"]
    assert (result.shape, result.dtype, result.ndim, result.size) == ((3,), np.float32, 1, 3)
    assert str(structir.typeof(X)) == 'R.Tensor((3, 4), dtype="float32")'


def test_devices_are_those_of_the_host() -> None:
    tree = {"a": X}
    for function in (structir.device_put, structir.device_get, structir.block_until_ready):
        np.testing.assert_array_equal(function(tree)["a"], X)
    assert structir.default_backend() == "cpu" and structir.device_count() == 1
    with structir.default_matmul_precision("float32"):
        product = jnp.dot(X, X.T, precision=structir.lax.Precision.HIGHEST)
    np.testing.assert_allclose(product, X @ X.T)


def test_options_that_change_results_are_errors() -> None:
    structir.config.update("jax_platform_name", "cpu")
    with pytest.raises(DiagnosticError, match="64-bit default dtypes"):
        structir.config.update("jax_enable_x64", True)


def test_scopes_name_variables() -> None:
    @structir.named_scope("block")
    def block(x: Any) -> Any:
        return jnp.tanh(x) * 2

    names = structir.trace(lambda x: block(x) + 1, X).script()
    assert "block:" in names and "block1:" in names and "gv:" in names
    np.testing.assert_allclose(structir.named_call(block, name="other")(X), np.tanh(X) * 2, 1e-6)


def test_pullbacks_and_transposes_of_arrays() -> None:
    value, pullback = structir.vjp(lambda x, y: (x * y).sum(0), X, X + 1)
    np.testing.assert_allclose(value, (X * (X + 1)).sum(0))
    first, second = pullback(np.ones(4, "float32"))
    np.testing.assert_allclose(first, X + 1)
    np.testing.assert_allclose(second, X)
    transposed = structir.linear_transpose(
        lambda v: v @ X, structir.ShapeDtypeStruct((3,), "float32")
    )
    np.testing.assert_allclose(transposed(np.ones(4, "float32"))[0], X.sum(1))


@pytest.mark.parametrize("signature", ["(n),(n)->()", "(n,m),(m)->(n)"])
def test_vectorized_functions_broadcast(signature: str) -> None:
    x = np.random.default_rng(0).normal(size=(2, 1, 3, 4)).astype("float32")
    y = x[0, 0] if signature[2] == "," else x[:, :, :1] + 1
    y = y[0] if signature[2] == "," else y
    function = jnp.vectorize(lambda a, b: (a * b).sum(-1), signature=signature)
    expected = np.vectorize(lambda a, b: (a * b).sum(-1), signature=signature)(x, y)
    np.testing.assert_allclose(function(x, y), expected, rtol=1e-5)


def test_vectorized_functions_of_elements() -> None:
    clamped = jnp.vectorize(lambda a, b: jnp.where(a > b, a, 0))
    np.testing.assert_array_equal(
        clamped(X[:, :, None], X[0, :2]), np.where(X[..., None] > X[0, :2], X[..., None], 0)
    )
    with pytest.raises(DiagnosticError, match="vectorize: signature: expected text"):
        jnp.vectorize(lambda a: a, signature="n->n")


def test_segments() -> None:
    ids = np.array([2, 0, 7])
    total = structir.ops.segment_sum(X, ids, num_segments=4)
    np.testing.assert_array_equal(total, [X[1], 0 * X[0], X[0], 0 * X[0]])
    assert np.asarray(structir.ops.segment_max(X, ids, 3)).min() == -np.inf
    np.testing.assert_array_equal(structir.ops.segment_prod(X, ids, 3)[1], np.ones(4))
    np.testing.assert_array_equal(structir.ops.segment_min(X.astype("int32"), -ids, 1)[0], X[1])
    with pytest.raises(DiagnosticError, match="expected the number of segments"):
        structir.ops.segment_sum(X, ids)


@pytest.mark.parametrize("method", ["nearest", "linear", "cubic", "lanczos3"])
def test_images_keep_constants_and_axes(method: str) -> None:
    image = np.full((2, 5, 3), 2.5, "float32")
    result = structir.image.resize(image, (2, 3, 7), method)
    assert result.shape == (2, 3, 7)
    np.testing.assert_allclose(result, 2.5, rtol=1e-5)
    with pytest.raises(DiagnosticError, match="expected 3 sizes"):
        structir.image.resize(image, (2, 3), method)
    with pytest.raises(DiagnosticError, match="resize: method"):
        structir.image.resize(image, (2, 3, 7), "box")

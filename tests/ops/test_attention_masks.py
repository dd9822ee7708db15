"""Attention where a mask hides all keys of a query: the query attends to all keys alike, in every
dtype, interpreted and compiled."""

import numpy as np
import pytest

import structir
from structir.ir.dtype import numpy_dtype

OPERANDS = ", ".join(
    f'{name}: R.Tensor((1, "{size}", 2, 4), "{{t}}")'
    for name, size in zip("qkv", "nmm", strict=True)
)
HEAD = "@R.function\ndef main(%s):\n    return "
TEXT = HEAD % OPERANDS + 'R.nn.attention(q, k, v, causal_mask="{mask}"{more})\n'
BOUNDS = {"s": "2,", "u": "2,", "a": "", "b": ""}
REST = ", ".join(f'{name}: R.Tensor(({shape}), "int32")' for name, shape in BOUNDS.items())
PACKED = HEAD % f"{OPERANDS}, {REST}"
PACKED += 'R.nn.attention_var_len(q, k, v, s, a, u, b, causal_mask="{mask}"{more})\n'
STARTS = [np.array([0, 7], "int32"), np.array([0, 3], "int32"), np.int32(7), np.int32(3)]
NEAR = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-6}


@pytest.mark.parametrize("more", ["", ", window_size=2"])
@pytest.mark.parametrize("mask", ["BottomRight", "TopLeft"])
@pytest.mark.parametrize("dtype", sorted(NEAR))
@pytest.mark.parametrize("text", [TEXT, PACKED], ids=["attention", "packed"])
def test_queries_without_keys_get_finite_weights(text, dtype, mask, more):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((1, n, 2, 4)).astype(numpy_dtype(dtype)) for n in (7, 3, 3)]
    rest = STARTS if text is PACKED else []
    exact = structir.parse(text.format(t="float64", mask=mask, more=more))
    expected = structir.interpret(exact, "main", *[x.astype("float64") for x in arrays], *rest)
    module = structir.parse(text.format(t=dtype, mask=mask, more=more))
    for result in (
        structir.interpret(module, "main", *arrays, *rest),
        structir.compile(module)["main"](*arrays, *rest),
    ):
        near = NEAR[dtype]
        np.testing.assert_allclose(result.astype("float64"), expected, near, near)

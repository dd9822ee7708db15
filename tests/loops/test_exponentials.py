"""Exponentials of differences to a maximum over the same values are the cheaper ones."""

import re

import numpy as np
import pytest

import structir

REPLACED = [
    "R.nn.softmax(x)",
    "R.nn.log_softmax(x, axis=0)",
    "R.nn.softmax(R.astype(x, 'float16'), axis=1)",
    "R.exp(R.subtract(x, R.max(x, axis=[0, 2], keepdims=True)))",
    "R.exp(R.subtract(x, R.reshape(R.max(x, axis=-1), (3, 5, 1))))",
    "R.sum(R.exp(R.subtract(x, R.max(x))))",
    "R.nn.softmax(R.matmul(x, R.permute_dims(x, axes=[0, 2, 1])))",
]
KEPT = [
    "R.exp(R.subtract(R.abs(x), R.max(x, axis=-1, keepdims=True)))",
    "R.exp(R.subtract(x, R.max(x[:, :, :3], axis=-1, keepdims=True)))",
    "R.exp(R.subtract(x, R.flip(R.max(x, axis=-1, keepdims=True), axis=0)))",
    "R.exp(R.subtract(x, R.max(R.permute_dims(x, axes=[0, 2, 1]), axis=1, keepdims=True)))",
    "R.exp(R.subtract(R.max(x, axis=-1, keepdims=True), x))",
]


@pytest.mark.parametrize("cases", [REPLACED, KEPT], ids=["replaced", "kept"])
def test_exponentials_of_differences_to_a_maximum(cases):
    x = (np.random.default_rng(1).normal(size=(3, 5, 5)) * 40).astype("float32")
    x[0, 0, 0], x[1, 1, 1] = -np.inf, np.nan
    body = f"return ({', '.join(cases)})"
    module = structir.parse(f"@R.function\ndef main(x: R.Tensor((3, 5, 5), 'float32')): {body}\n")
    executable = structir.compile(module)
    with np.errstate(all="ignore"):
        wanted = structir.interpret(module, "main", x)
    for found, value, case in zip(executable["main"](x), wanted, cases, strict=True):
        rtol = 2e-3 if value.dtype == "float16" else 1e-5
        np.testing.assert_allclose(found, value, rtol, 1e-30, err_msg=case)
    names = re.findall(r"\b(exp|exp_nonpositive)\(", executable.source())
    assert {*names} == {"exp_nonpositive" if cases is REPLACED else "exp"}

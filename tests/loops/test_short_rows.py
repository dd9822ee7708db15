"""Reductions over short rows, unrolled so that vectors run across rows."""

import numpy as np
import pytest

import structir
from tests.runtime.agreement import assert_agree


def check(lines, params, shapes):
    """A function agrees with the interpreter at several sizes, compiled once."""
    body = "\n".join(f"        {line}" for line in lines)
    head = ", ".join(f'{name}: R.Tensor({info}, "float32")' for name, info in params.items())
    module = structir.parse(
        f"@R.function\ndef main({head}):\n    with R.dataflow():\n{body}\n"
        "        R.output(y)\n    return y\n"
    )
    executable = structir.compile(module)
    random = np.random.default_rng(0)
    for own in shapes:
        given = [random.standard_normal(s).astype("float32") for s in own]
        wanted = structir.interpret(module, "main", *given)
        assert_agree(wanted, executable["main"](*given), str(own))
    assert executable.compile_count == 1
    return executable


@pytest.mark.parametrize("width", [1, 2, 3, 8, 15, 16, 17])
def test_softmax_of_few_columns(width):
    shapes = [[(n, width)] for n in (0, 1, 15, 64, 200)]
    executable = check(["y = R.nn.softmax(x)"], {"x": f'("n", {width})'}, shapes)
    assert (executable.source().count("for ") > 1) == (width > 16)  # unrolled, or loops


def test_norms_with_weights():
    lines = ["y = R.nn.layer_norm(x, gain, shift, axes=[-1])"]
    params = {"x": '("b", "n", 6)', "gain": "(6,)", "shift": "(6,)"}
    check(lines, params, [[(b, n, 6), (6,), (6,)] for b, n in ((2, 40), (1, 1), (0, 3))])


def test_several_results_and_axes():
    lines = ["m = R.max(x, axis=[1, 2])", "e = R.exp(x - R.expand_dims(m, axis=[1, 2]))"]
    lines += ["y = (R.sum(e, axis=[1, 2]), e, m)"]
    check(lines, {"x": '("n", 2, 5)'}, [[(n, 2, 5)] for n in (33, 1, 0)])


def test_rows_along_two_axes_of_other_sizes():
    lines = ["y = R.sum(x * z, axis=[2])"]
    params = {"x": '("b", "n", 4)', "z": '("n", 4)'}
    check(lines, params, [[(b, n, 4), (n, 4)] for b, n in ((3, 20), (1, 1), (2, 0))])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_values_that_belong_to_no_row_are_zero(dtype: str) -> None:
    rows = 'R.Tensor(("n",), "int64")'
    module = structir.parse(f"""
@R.function
def main(x: R.Tensor(("t", 3), "{dtype}"), a: {rows}, b: {rows}, at: {rows}):
    y = R.concat_rows(x, a, b, x, a, b, at)
    return y
""")
    x = np.arange(1, 19).reshape(6, 3).astype(dtype)
    for starts, limits, at in (([0, 2], [2, 3], [1, 6]), ([-1], [9], [-2]), ([], [], [])):
        arguments = [x, *[np.array(each, "int64") for each in (starts, limits, at)]]
        result = structir.compile(module)["main"](*arguments)
        np.testing.assert_array_equal(result, structir.interpret(module, "main", *arguments))

"""Maps and rows compiled by recipes: the results of the interpreter."""

import numpy as np
import pytest

import structir
from structir.ir.dtype import numpy_dtype
from structir.runtime.outline import outline
from structir.targets.cpu.kernels import kernel_count

BODIES = {
    "a map in row-major order": "R.nn.gelu(R.multiply(x, x))",
    "a map with a broadcast row": "R.divide(R.exp(x), R.add(b, s))",
    "a division by a column": "R.divide(x, R.sum(x, axis=[1], keepdims=True))",
    "a softmax": "R.nn.softmax(R.add(x, b))",
    "a normalisation": "R.nn.layer_norm(x, b, b, axes=[-1])",
    "a reduction of rows": "R.max(R.abs(x), axis=[1])",
    "a mean of all elements": "R.mean(x)",
    "a scalar": "R.multiply(s, s)",
    "a concatenation": "R.concat((R.sign(x), R.negative(x), x), axis=1)",
    "rows read by indices": "R.take(x, i, axis=0)",
    "integers": "R.floor_divide(R.add(i, i), R.const(3, 'int64'))",
    "booleans": "R.logical_and(R.greater(x, b), R.isfinite(x))",
    "a result over its operand": "R.exp(R.cumsum(x, axis=1))",
}
FUNCTION = """
@R.function
def main(
    x: R.Tensor(("n", 24), "float32"),
    b: R.Tensor((24,), "float32"),
    s: R.Tensor((), "float32"),
    i: R.Tensor(("k",), "int64"),
):
    y = {}
    return y
"""


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_recipes_compute_the_results_of_the_interpreter(
    body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRUCTIR_CACHE", "off")  # or the plan of an earlier run is loaded
    module = structir.parse(FUNCTION.format(body))
    rng = np.random.default_rng(1)
    x, b = rng.normal(size=(5, 24)).astype("float32"), rng.normal(size=24).astype("float32")
    arguments = (x, b, np.float32(1.5), np.array([3, 0, 4, -1]))
    executable = structir.compile(module)
    assert any(kernel.text.code.assembled for kernel in outline(module, "main").kernels)
    expected = structir.interpret(module, "main", *arguments)
    result = executable["main"](*arguments)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, 2e-3, 1e-5)


NARROW = {
    "products that are rounded": "R.subtract(R.multiply(x, y), R.divide(x, y))",
    "a function, and a choice": "R.where(R.less(x, y), R.exp(x), R.abs(y))",
    "conversions": "R.astype(R.astype(R.exp(R.astype(x, 'float64')), D), 'int8')",
    "a softmax": "R.nn.softmax(R.add(x, y))",
    "sums": "R.add(R.sum(x, axis=[1], keepdims=True), R.max(y, axis=[1], keepdims=True))",
}
SPECIAL = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-9, 440.0, -65000.0, 0.3, -2.5]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2fnuz"])
def test_narrow_floats_are_rounded_as_in_the_interpreter(dtype: str) -> None:
    lines = [
        f"    {name} = {body.replace('D', repr(dtype))}"
        for name, body in zip("abcde", NARROW.values(), strict=True)
    ]
    params = ", ".join(f'{name}: R.Tensor(("n", 24), "{dtype}")' for name in "xy")
    source = "\n".join([f"@R.function\ndef main({params}):", *lines, "    return (a, b, c, d, e)"])
    module = structir.parse(source)
    assert all(kernel.text.code.assembled for kernel in outline(module, "main").kernels)
    rng = np.random.default_rng(5)
    x, y = (rng.normal(size=(5, 24)) * 4 for _ in range(2))
    x[0, : len(SPECIAL)] = x[1, 5 : 5 + len(SPECIAL)] = SPECIAL
    with np.errstate(all="ignore"):
        arguments = [array.astype(numpy_dtype(dtype)) for array in (x, y)]
        expected = structir.interpret(module, "main", *arguments)
        results = structir.compile(module)["main"](*arguments)
    for name, result, wanted in zip(NARROW, results, expected, strict=True):
        assert result.dtype == wanted.dtype, name
        one, other = result.astype("float64"), wanted.astype("float64")
        np.testing.assert_array_equal(one, other, name)
        assert np.all(np.isnan(one) | (np.signbit(one) == np.signbit(other))), name


def compiled(body: str, **options: bool) -> structir.Executable:
    return structir.compile(structir.parse(FUNCTION.format(body)), **options)


def test_names_and_sizes_of_a_program_have_no_code_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STRUCTIR_CACHE", "off")
    compiled("R.multiply(x, R.exp(x))")
    count = kernel_count()
    text = '@R.function\ndef f(y: R.Tensor(("a", "b", "c"), "float32")):\n    return y * R.exp(y)\n'
    structir.compile(structir.parse(text))
    assert kernel_count() == count


@pytest.mark.parametrize("exact", [False, True])
def test_parts_are_of_all_rows(exact: bool) -> None:
    body = "R.permute_dims(R.reshape(R.divide(x, s), (1, -1, 4, 6)), (0, 2, 1, 3))"
    assert "a part of 0 to 4 * n" in compiled(body, exact_division=exact).source()


def test_terms_of_sums_have_no_order_where_divisions_are_exact() -> None:
    assert "T.add_to(" in compiled("R.sum(x, axis=[1])", exact_division=True).source()


def test_iterations_whose_rows_follow_each_other_are_apart() -> None:
    head = '@R.function\ndef main(x: R.Tensor(("a", "b", "n"), "float32")):\n'
    executable = structir.compile(structir.parse(f"{head}    return R.nn.avg_pool1d(x, 2)\n"))
    assert "a part of 0 to a * b" in executable.source()
    x = np.arange(24, dtype="float32").reshape(2, 3, 4) ** 2
    np.testing.assert_allclose(executable["main"](x), (x[..., 1:] + x[..., :-1]) / 2)


def test_loops_without_a_common_operand_stay_apart() -> None:
    params = ", ".join(f'{name}: R.Tensor(("n", 24), "float32")' for name in "xy")
    text = f"@R.function\ndef main({params}):\n    return R.concat((x, y), axis=1)\n"
    (kernel,) = outline(structir.parse(text), "main").kernels
    assert kernel.text.text.count(" in range(24):") == 2


@pytest.mark.parametrize("op", ["floor_divide", "floor_mod"])
def test_quotients_and_remainders_of_floats(op: str) -> None:
    executable = compiled(f"R.{op}(x, b)")
    assert "@I.kernel" in executable.source()
    rng = np.random.default_rng(3)
    x, b = rng.normal(size=(5, 24)).astype("float32"), rng.normal(size=24).astype("float32")
    result = executable["main"](x, b, np.float32(1), np.zeros(1, int))
    function = {"floor_divide": np.floor_divide, "floor_mod": np.mod}[op]
    np.testing.assert_array_equal(result, function(x, b))

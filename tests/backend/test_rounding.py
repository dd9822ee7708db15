"""Fused kernels round the result of each op to its dtype, as the interpreter does."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structir

pytestmark = pytest.mark.sampled(2)

DTYPES = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
EXACT = ["add", "subtract", "multiply", "divide", "maximum", "minimum"]  # one rounding each
UNARY = ["floor", "ceil", "abs", "negative", "nn.relu", "sign", "square"]


def function(dtype: str, lines: list[str], results: list[str]) -> str:
    body = "".join(f"        {line}\n" for line in lines)
    names = ", ".join(results)
    params = f"x: R.Tensor(('n', 'm'), '{dtype}'), y: R.Tensor(('n', 'm'), '{dtype}')"
    return (
        f"@R.function\ndef main({params}):\n    with R.dataflow():\n{body}"
        f"        R.output({names})\n    return ({names},)\n"
    )


def agree(source: str, *args: np.ndarray) -> None:
    module = structir.parse(source)
    with np.errstate(all="ignore"):
        interpreted = structir.interpret(module, "main", *args)
    for wanted, result in zip(interpreted, structir.compile(module)["main"](*args), strict=True):
        assert wanted.dtype == result.dtype
        np.testing.assert_array_equal(result.astype("float64"), wanted.astype("float64"))


def operands(dtype: str, shape: tuple[int, ...], scale: float = 2.0) -> list[np.ndarray]:
    random = np.random.default_rng(3)
    kind = getattr(ml_dtypes, dtype, dtype)
    return [(random.normal(size=shape) * scale).astype(kind) for _ in range(2)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=8, deadline=None)
@given(st.data())
def test_chains_of_ops_agree_with_the_interpreter(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(DTYPES))
    values, lines = ["x", "y"], []
    for k in range(data.draw(st.integers(3, 7))):
        earlier = st.sampled_from(values)
        op = data.draw(st.sampled_from([*EXACT, *UNARY, "astype", "sum"]))
        call = f"R.{op}({data.draw(earlier)})"
        if op in EXACT:
            call = f"R.{op}({data.draw(earlier)}, {data.draw(earlier)})"
        elif op == "astype":
            wide = data.draw(st.sampled_from([*DTYPES, "float32"]))
            call = f"R.astype(R.astype({data.draw(earlier)}, '{wide}'), '{dtype}')"
        elif op == "sum":
            call = f"R.max({data.draw(earlier)}, axis=1, keepdims=True)"
        lines.append(f"v{k} = {call}")
        values.append(f"v{k}")
    results = [data.draw(st.sampled_from(values[2:])), values[-1]]
    agree(function(dtype, lines, list(dict.fromkeys(results))), *operands(dtype, (5, 9)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "lines",
    [
        ["a = R.add(x, y)", "z = R.divide(a, R.multiply(x, y))", "f = R.floor(z)"],
        [
            "z = R.subtract(R.matmul(x, R.permute_dims(y)), R.max(x, axis=1, keepdims=True))",
            "f = R.floor(z)",
        ],
        [
            "z = R.nn.layer_norm(x + y, R.max(x, axis=0), R.min(y, axis=0), axes=[-1])",
            "f = R.floor(R.nn.softmax(z) * z)",
        ],
        ["z = R.subtract(R.sum(x * y, axis=0), R.max(x, axis=0))", "f = R.floor(z)"],
        ["z = R.subtract(R.sum(x * y, axis=1), R.max(y, axis=1))", "f = R.floor(z)"],
        ["z = R.nn.max_pool2d(R.reshape(x * y, (1, 1, 8, 8)), 3, padding=1)", "f = R.floor(z + z)"],
    ],
    ids=["maps", "product", "row", "columns", "short rows", "windows"],
)
def test_what_two_ops_read_is_one_value(dtype: str, lines: list[str]) -> None:
    agree(function(dtype, lines, ["z", "f"]), *operands(dtype, (8, 8)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions_round_between_ops(dtype: str) -> None:
    lines = [f"a = R.astype(x, '{dtype}')", "b = R.add(a, R.astype(y, DT))", "z = R.subtract(b, a)"]
    source = function("float32", [*lines, "f = R.floor(z)"], ["z", "f"]).replace("DT", repr(dtype))
    agree(source, *operands("float32", (40, 50), 10.0))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_blocks_of_rows_between_products_hold_rounded_values(dtype: str) -> None:
    lines = [
        "p = R.matmul(x, R.permute_dims(y))",
        f"h = R.nn.relu(R.astype(p, '{dtype}'))",
        "z = R.matmul(R.astype(h, 'float32'), y)",
        f"f = R.subtract(R.astype(z, '{dtype}'), R.astype(x, '{dtype}'))",
    ]
    agree(function("float32", lines, ["f"]), *[np.rint(v) for v in operands("float32", (64, 32))])

"""Tests of subscripts and operators in programs: their values are those of NumPy."""

from random import Random
from typing import Any

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError, ShapeMismatchError

HEAD = "@R.function\ndef main(x: {info}):\n{dims}    return ({values},)\n"
DIMS = "    n = T.int64()\n    m = T.int64()\n"
KNOWN = 'R.Tensor(("n", "m"), "float32")'
OPERATORS = (
    "(x > 0) & (x < 1)",
    "(x > 0) | ~(x > 1)",
    "(x > 0) ^ (x > 1)",
    "0 < x < 1",
    "-1 < x <= x[:1] < 2",
    "x + x.ndim",
)


def subscript(random: Random, symbolic: bool) -> str:
    """Draws a subscript that is valid for sizes of at least 3."""
    bounds = ["", "0", "1", "-1", "-2", "5", "-9"] + ["n // 2", "m - 1"] * symbolic
    positions = ["0", "2", "-1", "-3"] + ["n - 1", "m // 2"] * symbolic

    def item() -> str:
        if random.random() < 0.3:
            return random.choice(positions)
        return ":".join(
            [random.choice(bounds), random.choice(bounds), random.choice(["", "2", "-1", "-2"])]
        )

    items = [item() for _ in range(random.randint(0, 2))]
    if random.random() < 0.5:
        items.insert(random.randint(0, len(items)), "...")
    for _ in range(random.randint(0, 2)):
        items.insert(random.randint(0, len(items)), "None")
    return f"x[{', '.join(items) or '...'}]"


def expected(values: list[str], x: Any) -> tuple[Any, ...]:
    """Evaluates the expressions with NumPy; chained comparisons are written out."""
    names = {"x": x, "n": x.shape[0], "m": x.shape[1]}
    chained = {"0 < x < 1": "(0 < x) & (x < 1)"}
    chained["-1 < x <= x[:1] < 2"] = "(-1 < x) & (x <= x[:1]) & (x[:1] < 2)"
    return tuple([eval(chained.get(value, value), names) for value in values])


@pytest.mark.parametrize("info", [KNOWN, 'R.Tensor(ndim=2, dtype="float32")'])
def test_subscripts_and_operators_have_the_values_of_numpy(info: str) -> None:
    random, numbers = Random(7), np.random.default_rng(7)
    values = [subscript(random, info is KNOWN) for _ in range(40)] + list(OPERATORS)
    text = HEAD.format(info=info, dims=DIMS * (info is KNOWN), values=", ".join(values))
    module = structir.parse(text)
    assert structir.structural_equal(structir.parse(module.script()), module)
    for shape in ((3, 4), (5, 3)):
        x = numbers.standard_normal(shape).astype("float32")
        results = structir.interpret(module, "main", x)
        for value, result, answer in zip(values, results, expected(values, x), strict=True):
            np.testing.assert_array_equal(result, answer, err_msg=value)


def test_a_compiled_program_has_the_same_values() -> None:
    values = ["x[1:, ::-2]", "x[-1, None]", "x[..., 0]", "x[n // 2:, :m - 1]", *OPERATORS]
    text = HEAD.format(info=KNOWN, dims=DIMS, values=", ".join(values))
    x = np.arange(12, dtype="float32").reshape(3, 4) / 4 - 1
    results = structir.compile(structir.parse(text))["main"](x)
    for value, result, answer in zip(values, results, expected(values, x), strict=True):
        np.testing.assert_array_equal(result, answer, err_msg=value)


def test_an_augmented_assignment_binds_a_new_value() -> None:
    module = structir.parse("""
@R.function
def main(x: R.Tensor(("n", "m"), "int32")):
    rows, columns = x.shape
    y = x
    y += 3
    y <<= 1
    if R.sum(x) > 0:
        z = y
        z -= x
    else:
        z = y
        z *= 2
    return z, R.reshape(y, (columns, rows))
""")
    for x in (np.arange(6, dtype="int32").reshape(2, 3), np.full((1, 4), -1, "int32")):
        y = x + 3 << 1
        z, turned = structir.interpret(module, "main", x)
        assert (z == (y - x if x.sum() > 0 else y * 2)).all()
        assert (turned == y.reshape(turned.shape)).all()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("x[0, 0, 0]", "expected at most 2 indices, found 3"),
        ("x[..., ...]", "expected one `...`, found several"),
        ("x[::0]", "expected a step other than 0"),
        ("x[::m]", "expected a step other than 0"),
        ("x[True]", "expected a constant integer as the index"),
        ("x['w']", "expected a constant integer as the index"),
        ("~m", "`~` is not defined on numbers"),
    ],
)
def test_an_invalid_subscript_is_an_error(value: str, message: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        structir.parse(HEAD.format(info=KNOWN, dims=DIMS, values=value))
    assert message in str(caught.value)


def test_an_index_out_of_range_is_an_error_of_the_run() -> None:
    module = structir.parse(HEAD.format(info=KNOWN, dims=DIMS, values="x[2, ...], x[-3, ...]"))
    x = np.zeros((2, 1), "float32")
    for run in (structir.compile(module)["main"], lambda x: structir.interpret(module, "main", x)):
        with pytest.raises(ShapeMismatchError):
            run(x)

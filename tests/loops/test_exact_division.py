"""`exact_division`: correctly rounded quotients instead of products with a reciprocal."""

from pathlib import Path

import numpy as np
import pytest

import structir
from structir.ir import IRModule
from structir.script import I, R

NUMBERS = np.random.default_rng(5)


@I.ir_module
class Shares:
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")):
        return x / R.sum(x, axis=[1], keepdims=True)

    @R.function
    def scaled(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("n", 1), "float32")):
        return x / y

    @R.function
    def shared(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor((), "float32")):
        return x / y

    @R.function
    def columns(x: R.Tensor(("n", "m"), "float32")):
        return x / R.sum(x, axis=[0], keepdims=True)

    @R.function
    def short(x: R.Tensor(("n", 3), "float32")):
        return x / R.sum(x, axis=[1], keepdims=True)


def quotients(executable, name: str, width: int) -> bool:
    """Whether all quotients are NumPy's: sums of small integers are exact in any order."""
    x = NUMBERS.integers(1, 1000, (70, width)).astype("float32")
    divisors = {"scaled": x[:, :1] + 1, "shared": np.float32(3)}
    given = (x, divisors[name]) if name in divisors else (x,)
    under = given[-1] if name in divisors else x.sum(int(name != "columns"), keepdims=True)
    found = executable[name](*given)
    np.testing.assert_allclose(found, x / under, 1e-6)
    return bool((found == x / under).all())


@pytest.mark.parametrize(
    ("name", "width"), [("main", 67), ("scaled", 67), ("shared", 67), ("short", 3)]
)
def test_divisions_are_exact_to_the_last_bit(name: str, width: int) -> None:
    assert quotients(structir.compile(Shares, exact_division=True), name, width)
    assert not quotients(structir.compile(Shares), name, width), "else it would tell nothing"


@pytest.mark.parametrize("width", [3, 67])
@pytest.mark.parametrize("rounding", ["floor({})", 'astype({}, "int32")'])
def test_quotients_that_are_rounded_to_integers_are_exact(width: int, rounding: str) -> None:
    program = f"""
@R.function
def main(x: R.Tensor(("n", {width}), "float32")):
    total = R.sum(x, axis=[1], keepdims=True)
    return R.{rounding.format("x * total / total")}, total
"""
    x = NUMBERS.integers(1, 100, (70, width)).astype("float32")
    result, _ = structir.compile(structir.parse(program))["main"](x)
    np.testing.assert_array_equal(result, x)


def test_columns_and_stored_plans_divide_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRUCTIR_CACHE", str(tmp_path / "cache"))
    for exact in (True, False, True):  # the second and the third find the other's plans on disk
        executable = structir.compile(Shares, exact_division=exact)
        assert quotients(executable, "main", 67) is exact
        executable.save(tmp_path / "shares.sir")
        assert quotients(structir.load(tmp_path / "shares.sir"), "main", 67) is exact
    assert quotients(structir.compile(Shares, exact_division=True), "columns", 67)


def test_functions_are_not_approximated() -> None:
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        return 1.0 + R.tanh(x)

    module = IRModule({"main": main})
    texts = [structir.compile(module, exact_division=exact).source() for exact in (False, True)]
    assert ["T.tanh(" in text for text in texts] == [False, True]

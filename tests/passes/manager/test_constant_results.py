"""Results that are the same for all inputs: errors, unless the program is constant."""

import pytest

import structir
from structir.errors import PassError
from structir.ir import IRModule
from structir.passes import PassContext, VerifyResults
from structir.passes.base import Pass
from structir.passes.manager.data_dependence import data_dependence

INTEGERS = 'i: R.Tensor(("n", 4), "int32"), x: R.Tensor(("n", 4), "float32")'


def program(result: str) -> IRModule:
    return structir.parse(f"@R.function\ndef main({INTEGERS}):\n    return {result}\n")


def verify(before: str, after: str, strict: bool = False) -> VerifyResults:
    comparing, changed = VerifyResults(strict=strict), program(after)
    with PassContext([comparing]):
        Pass("renamed", lambda _: changed)(program(before))
    return comparing


@pytest.mark.parametrize(
    "result",
    [
        'R.less(R.floor_mod(i, R.const(5, "int32")), R.const(9, "int32"))',
        "R.isnan(R.astype(i, 'float32'))",
    ],
)
def test_a_constant_result_that_depends_on_inputs_is_reported(result: str) -> None:
    (line,) = verify(result, result).report()
    assert "result 1 of 1 is " in line and line.endswith(" for all inputs")
    with pytest.raises(PassError, match="compared nothing") as error:
        verify(result, result, strict=True)
    assert error.value.diagnostics[0].code == "E0513"
    with pytest.raises(PassError, match="renamed changes the result of main"):
        verify(result, f"R.logical_not({result})")


@pytest.mark.parametrize(
    "result", ["R.full((0, 3), R.const(1.0))", "(R.exp(R.full((0,), R.const(1.0))), R.shape([]))"]
)
def test_a_result_without_elements_at_any_size_is_reported(result: str) -> None:
    assert "no elements at any size" in verify(result, result).report()[0]
    with pytest.raises(PassError, match="no result has elements for any input"):
        verify(result, result, strict=True)


@pytest.mark.parametrize(
    "result",
    [
        "R.zeros_like(x)",
        "R.shape_to_tensor(R.shape_of(x))",
        "R.subtract(i, i)",  # a polynomial that is constant
        "R.greater(x, R.const(50000.0))",  # further inputs show both results
        "(R.exp(x), R.isnan(R.astype(i, 'float32')))",  # another result varies
    ],
)
def test_other_results_are_compared(result: str) -> None:
    assert verify(result, result).compared


def test_a_constant_among_other_results_is_reported() -> None:
    result = "(R.exp(x), R.isnan(R.astype(i, 'float32')))"
    assert "result 2 of 2 is False for all inputs" in verify(result, result).report()[0]


def test_constant_programs_are_compared_exactly() -> None:
    with pytest.raises(PassError, match="renamed changes the result of main"):
        verify("R.zeros_like(x)", "R.add(R.zeros_like(x), R.const(1e-30))")


def test_sizes_are_no_data() -> None:
    result = "(R.zeros_like(x), R.add(R.zeros_like(x), x), R.full_like(x, R.const(2.0)), i)"
    assert data_dependence(program(result)["main"]) == [False, False, True, False, True]


def test_branches_and_closures_depend_on_what_they_use() -> None:
    module = structir.parse("""
@R.function
def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")):
    if c:
        y = R.zeros_like(x)
    else:
        y = R.ones_like(x)

    @R.function
    def f(a: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return R.zeros_like(a)
    z = f(x)
    return (y, z)
""")
    assert data_dependence(module["main"]) == [False, True, True]

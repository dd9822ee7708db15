"""Exact comparison over finite fields: ring operations, their error bound, and what is refused."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structir
from structir.errors import PassError
from structir.interpret.arguments import random_values
from structir.ir import IRModule
from structir.passes import PassContext, VerifyResults, pipeline
from structir.passes.base import Pass
from structir.passes.manager.finite_field import (
    PRIMES,
    NotExactError,
    compare_exactly,
    field_elements,
    field_program,
)

PARAMS = (
    'x: R.Tensor(("n", "k"), "float32"), w: R.Tensor(("k", 6), "float32"), '
    'v: R.Tensor((6, 2), "float32"), i: R.Tensor((3,), "int64")'
)
ARGUMENTS = [
    np.ones((3, 5), "float32"),
    np.ones((5, 6), "float32"),
    np.ones((6, 2), "float32"),
    np.array([0, 1, 0]),
]


def program(result: str, params: str = PARAMS) -> IRModule:
    return structir.parse(f"@R.function\ndef main({params}):\n    return {result}\n")


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8))
def test_floats_are_fractions(values: list[float]) -> None:
    for prime in PRIMES:
        fractions = [Fraction(value) for value in values]
        expected = [f.numerator * pow(f.denominator, -1, prime) % prime for f in fractions]
        assert field_elements(np.array(values), prime).tolist() == expected


def test_equal_polynomials_are_equal_with_a_bound_of_the_error() -> None:
    left = program("R.take(R.matmul(R.matmul(x, w), v), i, axis=1)")
    right = program("R.matmul(x, R.take(R.matmul(w, v), i, axis=1))")
    result = compare_exactly(left, right, "main", ARGUMENTS, 0)
    assert result.equal
    assert result.error == pytest.approx(9 / (PRIMES[0] * PRIMES[1]))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("R.multiply(x, R.const(0.1))", "R.multiply(x, R.const(0.10000001))"),
        ("R.matmul(x, w)", "R.matmul(x, R.flip(w, axis=0))"),
        ("R.sum(x, axis=[1])", "R.sum(R.square(x), axis=[1])"),
        ("R.add(x, x)", "R.subtract(x, R.negative(R.square(x)))"),
    ],
)
def test_different_polynomials_differ(left: str, right: str) -> None:
    assert not compare_exactly(program(left), program(right), "main", ARGUMENTS, 0).equal


@pytest.mark.parametrize("result", ["R.exp(x)", "R.divide(x, x)", "R.nn.relu(x)", "R.mean(x)"])
def test_other_operations_are_refused_at_their_location(result: str) -> None:
    with pytest.raises(NotExactError, match="is no ring operation") as error:
        compare_exactly(program(result), program("x"), "main", ARGUMENTS, 0)
    assert error.value.diagnostics[0].span is not None


def test_long_sums_are_refused_before_they_overflow() -> None:
    params = 'x: R.Tensor(("n", "k"), "float32"), y: R.Tensor(("k", "m"), "float32")'
    both = program("R.matmul(x, y)", params)
    arguments = [np.ones((1, 9000), "float32"), np.ones((9000, 1), "float32")]
    with pytest.raises(NotExactError, match="may overflow"):
        compare_exactly(both, both, "main", arguments, 0)


CALLS = [
    "R.matmul(x, w)",
    "R.sum(x, axis=[1])",
    "R.cumsum(x, axis=1)",
    "R.concat((x, x), axis=0)",
    "R.nn.pad(x, (1, 0, 0, 2))",
    "R.take(w, i, axis=1)",
    "R.flip(x, axis=1)",
    "R.tril(R.matmul(x, w))",
    "R.einsum((x, w), 'a b, b c -> c a')",
    "R.strided_slice(x, axes=[0], begin=[1], end=[3])",
    "R.square(R.astype(x, 'float64'))",
]


@pytest.mark.parametrize("result", CALLS)
def test_field_values_are_those_of_integers(result: str) -> None:
    """Values of small integers are exact in float64; modulo the prime they are the field's."""
    module, prime = program(result), PRIMES[0]
    numbers = np.random.default_rng(0)
    integers = [numbers.integers(0, 50, array.shape) for array in ARGUMENTS[:3]]
    floats = [array.astype("float32") for array in integers]
    field = field_program(module, prime)
    for array in integers:
        field.note(array, 1)
    actual = field.global_function("main")(*integers, ARGUMENTS[3])
    expected = np.asarray(structir.interpret(module, "main", *floats, ARGUMENTS[3]), np.float64)
    np.testing.assert_array_equal(actual, expected.astype("int64") % prime)


@settings(max_examples=5)
@given(seed=st.integers(0, 99))
def test_a_verified_pass_reports_the_exact_comparison(seed: int) -> None:
    module = program("R.add(R.matmul(x, w), R.matmul(x, w))")
    comparing = VerifyResults(inputs=1, seed=seed, edges=False, exact=True)
    with PassContext([comparing]):
        pipeline("cse")(module)
    assert (
        "equal over finite fields, with an error probability of at most 4e-15"
        in (comparing.report()[0])
    )


def test_a_difference_below_every_tolerance_is_reported() -> None:
    wrong = program("R.multiply(R.const(1e-30), R.matmul(x, w))")
    right = program("R.multiply(R.const(1.0000001e-30), R.matmul(x, w))")
    with PassContext([VerifyResults(exact=True)]), pytest.raises(PassError) as error:
        Pass("scaled", lambda _: wrong)(right)
    assert "scaled changes the result of main" in str(error.value)


def test_integers_keep_their_values() -> None:
    params = 'x: R.Tensor((4,), "float32"), i: R.Tensor((4,), "int8"), b: R.Tensor((4,), "bool")'
    left = program('R.where(b, R.multiply(x, R.astype(i, "float32")), x)', params)
    right = program('R.where(b, R.multiply(R.astype(i, "float32"), x), x)', params)
    arguments = random_values(left["main"].params, 0, {})
    assert compare_exactly(left, right, "main", arguments, 0).equal
    wrong = program("R.where(b, x, x)", params)
    assert not compare_exactly(left, wrong, "main", arguments, 0).equal

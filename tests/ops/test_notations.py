"""Tests of `R.sig`, index signatures and `R.einsum`: what a number means in each."""

import numpy as np
import pytest

import structir
from structir import ScalarExpr, op
from structir.errors import DiagnosticError

X = np.arange(24, dtype="float32").reshape(2, 3, 4)


@pytest.fixture(scope="module", autouse=True)
def declared_ops() -> None:
    """Declares two ops whose index signatures contain a number."""

    @op("x[*s, 4] @ F -> y[*s] @ F")
    def notation_first_of_four(x: ScalarExpr) -> ScalarExpr:
        return x

    @op("x[*s, 2 : n] @ F -> y[*s, 2] @ F")
    def notation_third_then_absent(x: ScalarExpr) -> ScalarExpr:
        return x


def program(value: str) -> structir.ir.IRModule:
    return structir.parse(
        f'@R.function\ndef main(x: R.Tensor(("n", 3, 4), "float32")):\n    return {value}\n'
    )


@pytest.mark.parametrize("run", ["interpret", "compile"])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('R.einsum((x,), "*s 4 -> *s")', X.sum(-1)),
        ('R.einsum((x,), "*s 3 4 -> *s")', X.sum((1, 2))),
        ('R.einsum((x,), "*s 2*k -> *s k")', X[..., ::2]),
        ("R.notation_first_of_four(x)", X[..., 0]),
        ("R.notation_third_then_absent(x)", np.stack([X[..., 2], X[..., 2] * 0], -1)),
    ],
)
def test_numbers_in_notations_have_one_meaning(run: str, value: str, expected: np.ndarray) -> None:
    module = program(value)
    actual = (
        structir.interpret(module, "main", X)
        if run == "interpret"
        else structir.compile(module)["main"](X)
    )
    assert np.array_equal(actual, expected)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('R.einsum((x,), "*s 5 -> *s")', "expected `5`, found 5 and 4"),
        ('R.einsum((x,), "ij4->ij")', "expected result axes of the operands, found `ij`"),
        ('R.einsum((x,), "i$->i")', "expected terms such as 'ij,jk->ik'"),
        ('R.einsum((x,), "*s n -> *s m n")', "expected result axes of the operands, found `m`"),
        ('R.sig("*s 5 -> *s")(x)', "one dim must be both 5 and 4"),
    ],
)
def test_wrong_numbers_in_notations_are_rejected(value: str, message: str) -> None:
    with pytest.raises(DiagnosticError, match=message):
        program(value)


def test_a_number_in_a_size_signature_is_the_size_of_an_axis() -> None:
    info = program('R.sig("*s 4 -> *s 7")(x)')["main"].ret_struct_info
    assert str(info) == 'R.Tensor((n, 3, 7), dtype="float32")'

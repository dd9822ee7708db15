"""Tests of contradictions between conditions on sizes."""

import random
from itertools import product

import pytest

import structir
from structir.errors import DiagnosticError, StructInfoError
from structir.ir.module import IRModule

NAMES = "abc"


def program(*conditions: str) -> IRModule:
    lines = "\n".join([f"    R.require({condition!r})" for condition in conditions])
    param = 'x: R.Tensor(("a", "b", "c", "d"), "float32")'
    return structir.parse(f"@R.function\ndef main({param}):\n{lines}\n    return x\n")


@pytest.mark.parametrize(
    "conditions",
    [
        ("a < b", "b < c", "c < a"),
        ("a < b", "b < a + 1"),
        ("a*b == 7", "a == b + 1"),
        ("2*a < 2*b", "2*b < 2*a + 2"),
        ("a + b <= c", "c <= d", "d < a + b"),
        ("a < b", "b < c", "c < a + 2"),
        ("a*b == 12", "a > 6", "b > 1", "a != 12"),
    ],
)
def test_contradictory_conditions_are_rejected(conditions: tuple[str, ...]) -> None:
    with pytest.raises(StructInfoError, match="conflicting shapes"):
        structir.infer(program(*conditions))


def test_conflict_of_inequalities_has_a_minimal_core() -> None:
    with pytest.raises(StructInfoError) as error:
        structir.infer(program("a <= d", "a < b", "c < d", "b < c", "c < a", "b <= d"))
    notes = str(error.value)
    assert all(f"R.require('{text}')" in notes for text in ("a < b", "b < c", "c < a"))
    assert not any(f"R.require('{text}')" in notes for text in ("a <= d", "c < d", "b <= d"))


@pytest.mark.parametrize(
    ("conditions", "equal"),
    [(("a <= b", "b <= a"), ("a", "b")), (("a <= b", "b <= c", "c <= a"), ("a", "c"))],
)
def test_cycle_of_inequalities_is_an_equality(
    conditions: tuple[str, ...], equal: tuple[str, str]
) -> None:
    module = structir.infer(program(*conditions), refine="signature")
    axes = dict(zip("abcd", module["main"].params[0].struct_info.dims, strict=True))
    assert axes[equal[0]] == axes[equal[1]]


def random_conditions(sample: random.Random) -> list[str]:
    conditions = []
    for _ in range(sample.randint(2, 5)):
        first, second = sample.sample(NAMES, 2)
        relation = sample.choice(["<", "<=", "<", "=="])
        offset = sample.randint(0, 2)
        lhs = sample.choice([first, first, f"2*{first}", f"{first}*{second}"])
        rhs = sample.choice([f"{second} + {offset}", second, str(sample.randint(1, 9))])
        conditions.append(f"{lhs} {relation} {rhs}")
    return conditions


def is_satisfiable(conditions: list[str], greatest: int) -> bool:
    values = [dict(zip(NAMES, v, strict=True)) for v in product(range(1, greatest + 1), repeat=3)]
    return any(all(eval(c, {}, sizes) for c in conditions) for sizes in values)


def test_conditions_with_a_solution_are_accepted_and_linear_ones_without_are_rejected() -> None:
    sample = random.Random(11)
    rejections = 0
    for _ in range(150):
        conditions = random_conditions(sample)
        try:
            structir.infer(program(*conditions))
        except DiagnosticError:
            rejections += 1
            assert not is_satisfiable(conditions, 12), conditions
        else:
            is_difference = not any("*" in condition for condition in conditions)
            assert not is_difference or is_satisfiable(conditions, 12), conditions
    assert rejections > 20

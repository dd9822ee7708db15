"""Random programs that have a solution: the solver never excludes it."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.solver import judge
from tests.solver.concrete import forward
from tests.solver.random_cases import random_case


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 30))
def test_a_solution_is_an_instance_of_the_answer(seed: int) -> None:
    case = random_case(Random(seed))
    found = judge.answer(case)
    assert found.bad is None, found.conflict
    shapes = forward(case["ops"], case["solution"])
    assert judge.is_instance(found, {name: list(shape) for name, shape in shapes.items()})


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1 << 30))
def test_known_operands_give_every_shape(seed: int) -> None:
    case = random_case(Random(seed))
    for param in case["params"]:
        param["shape"] = list(case["solution"][param["name"]])
    found = judge.answer(case)
    shapes = forward(case["ops"], case["solution"])
    assert {name: found.shape(name) for name in shapes} == shapes

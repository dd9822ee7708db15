"""Tests that the solver never excludes the solution of a random satisfiable program."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from structir.solver.program.defaulting import close
from tests.solver import judge
from tests.solver.concrete import forward
from tests.solver.random_cases import random_case


@settings(max_examples=150)
@given(st.integers(0, 1 << 30))
def test_a_solution_is_an_instance_of_the_answer(seed: int) -> None:
    case = random_case(Random(seed))
    found = judge.answer(case)
    assert found.bad is None, found.conflict
    shapes = forward(case["ops"], case["solution"])
    assert judge.is_instance(found, {name: list(shape) for name, shape in shapes.items()})


@settings(max_examples=100)
@given(st.integers(0, 1 << 30))
def test_known_operands_give_every_shape(seed: int) -> None:
    case = random_case(Random(seed))
    for param in case["params"]:
        param["shape"] = list(case["solution"][param["name"]])
    found = judge.answer(case)
    shapes = forward(case["ops"], case["solution"])
    assert {name: found.shape(name) for name in shapes} == shapes


@settings(max_examples=60)
@given(st.integers(0, 1 << 30))
def test_defaulting_preserves_satisfiability(seed: int) -> None:
    case = random_case(Random(seed))
    found = judge.answer(case)
    program = found.program
    close(program.solver, [program.value(p["name"]) for p in case["params"]], policy="unit")
    closed = {param["name"]: found.shape(param["name"]) for param in case["params"]}
    if any(type(size) is not int for row in closed.values() for size in row):
        return  # an opaque or composed size stays open
    shapes = forward(case["ops"], closed)
    for name, pattern in case["annotations"].items():
        if pattern is not None:
            assert len(shapes[name]) == len(pattern)
            both = zip(pattern, shapes[name], strict=True)
            assert all(said == size for said, size in both if type(said) is int)

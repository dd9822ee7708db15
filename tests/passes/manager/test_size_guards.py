"""Conditions on sizes are evaluated without runs, and each combination of outcomes gets sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import structir
from structir.ir import IRModule
from structir.passes.manager.decisions import changed_decisions
from structir.passes.manager.input_sizes import size_space
from structir.passes.manager.size_guards import GuardedSizes, guarded_sizes

THREE = 'x: R.Tensor(("n", "m", "k"), "float32")'


def module(body: str) -> IRModule:
    dims = "".join(f"    {dim} = T.int64()\n" for dim in "nmk")
    return structir.parse(f"@R.function\ndef main({THREE}):\n{dims}    {body}\n")


def size(expr: str) -> str:
    return f"R.shape_to_tensor(R.shape([{expr}]))"


def guards(body: str, condition: str) -> tuple[IRModule, GuardedSizes]:
    before = module(body.format("x"))
    after = module(body.format(f"R.where({condition}, R.negative(x), x)"))
    changed = changed_decisions(before, after, "main").calls
    space = size_space(before, before["main"], False, False)
    start = {"n": 3, "m": 17, "k": 2}
    return after, guarded_sizes(space, (before, after), "main", changed, (), start)


def holds(program: IRModule, sizes: dict[str, int]) -> bool:
    """Whether the rewritten program negates its input at some sizes."""
    x: Any = np.ones([sizes[dim] for dim in "nmk"], np.float32)
    return bool(np.all(structir.interpret(program, "main", x) < 0))


@pytest.mark.parametrize(
    "condition",
    [
        f"R.logical_and(R.logical_and(R.equal({size('n')}, {size('m')}), "
        f"R.greater({size('k')}, {size('n')})), R.equal({size('n % 4')}, {size('3')}))",
        f"R.less({size('n + 1')}, {size('T.min(k, 2 * m) // 3')})",
        f"R.logical_or(R.equal({size('T.if_then_else(n > m, k, m)')}, {size('n - 1')}), "
        f"R.equal(R.squeeze({size('k')}, axis=[0]), R.const(20, 'int64')))",
    ],
)
def test_both_outcomes_of_a_condition_get_sizes(condition: str) -> None:
    program, sizes = guards("return {}", condition)
    assert {holds(program, each) for each in sizes} == {True, False}


def test_outcomes_are_those_of_runs() -> None:
    condition = f"R.less({size('n // 2 + m % 3')}, {size('T.max(k, 3)')})"
    program, sizes = guards("return {}", condition)
    for group in sizes.groups:
        among = [sizes.candidates[k] for k in group[:4]]
        assert len({holds(program, each) for each in among}) == 1


def test_dims_that_an_equation_determines_are_solved() -> None:
    program = module('R.require("n == 2 * m * k")\n    return x')
    space = size_space(program, program["main"], False, False)
    assert space.completed({"n": 1, "m": 3, "k": 4}) == {"n": 24, "m": 3, "k": 4}
    first = next(space.proposals({}, 0))
    assert space.allows(first) and len(set(first.values())) == 3

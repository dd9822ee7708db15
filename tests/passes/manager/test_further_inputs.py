"""Inputs with many elements, batches of scalars, unknown ranks, and rounding that is accepted."""

from __future__ import annotations

import numpy as np
import pytest

import structir
from structir.errors import PassError
from structir.ir import IRModule
from structir.passes import Pass, PassContext, VerifyResults
from structir.passes.manager.comparison import within_own_error
from structir.passes.manager.further_inputs import far_scalars, many_elements
from structir.passes.manager.row_batches import different_rows
from structir.passes.manager.samples import Sampler
from structir.passes.manager.widening import folded_rounding

LOOP = """
@R.function(private=True)
def count(k: R.Tensor((), "int64"), n: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
    c = R.less(k, R.const(2, "int64"))
    if c:
        r = n
    else:
        r = count(R.{step}, R.add(n, R.const(1, "int64")))
    return r

@R.function
def main(k: R.Tensor((), "int64")):
    y = count(k, R.const(0, "int64"))
    return {result}
"""


def loop(step: str, result: str = "y") -> IRModule:
    return structir.parse(LOOP.format(step=step, result=result))


def sampler_of(program: IRModule) -> Sampler:
    sampler = Sampler(program, "main", program["main"], {}, 0, False)
    sampler.start = sampler.first()
    return sampler


def test_scalars_of_loops_are_large_where_these_end_soon() -> None:
    halved = sampler_of(loop('right_shift(k, R.const(1, "int64"))'))
    assert max(int(each.arguments[0]) for each in far_scalars(halved, ())) > 1 << 40
    counted = sampler_of(loop('subtract(k, R.const(1, "int64"))'))
    assert max(int(each.arguments[0]) for each in far_scalars(counted, ())) < 1 << 10


def test_a_wrong_count_of_a_large_scalar_is_caught() -> None:
    step = 'right_shift(k, R.const(1, "int64"))'
    wrong = loop(step, 'R.minimum(y, R.const(37, "int64"))')
    with pytest.raises(PassError, match="changes the result"), PassContext([VerifyResults()]):
        Pass("edit", lambda _: wrong)(loop(step))


def test_elementwise_programs_get_many_elements() -> None:
    program = structir.parse(
        '@R.function\ndef main(i: R.Tensor(("n",), "int32")):\n    return R.add(i, i)\n'
    )
    samples = list(many_elements(sampler_of(program), ()))
    assert {each.arguments[0].size for each in samples} == {1 << 15}
    assert any(np.unique(each.arguments[0]).size > 1 << 13 for each in samples)


SCALARS = """
@R.function
def main(a: R.Tensor((), "int32"), b: R.Tensor((), "int32")):
    p = R.equal(R.floor_mod(a, R.const(100, "int32")), R.const({}, "int32"))
    q = R.equal(R.floor_mod(b, R.const(12, "int32")), R.const(1, "int32"))
    return R.where(R.logical_and(p, q), a, b)
"""


def test_scalars_at_which_programs_differ_are_found_by_one_run_of_many() -> None:
    before, after = (structir.parse(SCALARS.format(number)) for number in (7, 8))
    rows = list(different_rows(sampler_of(before), after, (100.0, 12.0, 1.0, 7.0, 8.0), ()))
    pairs = [[int(each) for each in sample.arguments] for sample in rows]
    assert pairs and all(a % 100 in (7, 8) and b % 12 == 1 for a, b in pairs)
    assert not list(different_rows(sampler_of(before), before, (100.0, 12.0), ()))


def test_tensors_of_unknown_rank_often_have_shapes_that_combine() -> None:
    program = structir.parse("@R.function\ndef main(x, y):\n    return R.subtract(x, y)\n")
    sampler = sampler_of(program)
    samples = [each for each in sampler.samples(2, True) if each.accepted]
    assert max(np.ndim(each.arguments[1]) for each in samples) > 1
    assert any(np.shape(each.arguments[0]) != np.shape(each.arguments[1]) for each in samples)


def test_constants_that_a_pass_combines_otherwise_are_rounded() -> None:
    params = 'h: R.Tensor(("n",), "float32"), x: R.Tensor(("n",), "float32")'
    before, after = (
        structir.parse(f"@R.function\ndef main({params}):\n    return {result}\n")
        for result in ("h * 0.9 + x * 0.1", "h + (x - h) * 0.1")
    )
    error, constants = folded_rounding(before, after, "main")
    assert error > 0
    assert constants
    assert folded_rounding(before, before, "main") == (0, frozenset())


def test_the_error_of_a_program_itself_is_accepted() -> None:
    exact = np.array([1.0, -0.5])
    first, second = np.array([0.9, -0.4], "float32"), np.array([1.05, -0.55], "float32")
    assert within_own_error(first, exact, second, 1e-4)
    assert not within_own_error(exact.astype("float32"), exact, second, 1e-4)

"""Inputs with many elements, and large scalars for loops that end soon."""

from __future__ import annotations

import numpy as np
import pytest

import structir
from structir.errors import PassError
from structir.ir import IRModule
from structir.passes import Pass, PassContext, VerifyResults
from structir.passes.manager.further_inputs import far_scalars, many_elements
from structir.passes.manager.samples import Sampler

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

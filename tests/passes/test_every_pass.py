"""Properties of every pass on random programs: results are well formed, equal, printable and
parseable, and a second run changes nothing.
"""

import warnings

import pytest

from structir.analysis.internal_functions import PRIVATE
from structir.errors import StructIRError
from structir.interpret import interpret
from structir.ir import Function, IRModule, structural_equal
from structir.passes import Pass, PassContext, VerifyIR, all_passes
from structir.passes.manager.comparison import same, within_rounding
from structir.passes.manager.samples import answers
from structir.tools.fuzzing import with_private_helpers
from structir.tools.generate import random_module

PROGRAMS = 100
CHUNK = 25
PASSES = [each for each in all_passes() if each.comparable]
every_pass = pytest.mark.parametrize("each", PASSES, ids=lambda each: each.name)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("chunk", range(PROGRAMS // CHUNK))
def test_programs_compute_the_same(chunk: int) -> None:
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        module = random_module(seed, size=6)
        if seed % 2:
            module = with_private_helpers(module)
        known = {
            name: list(answers(module, name, function, 1, seed))
            for name, function in module.functions.items()
            if isinstance(function, Function) and not function.attrs.get(PRIVATE)
        }
        with warnings.catch_warnings(), PassContext([VerifyIR()]):
            warnings.simplefilter("ignore")
            for each in PASSES:
                check(each, module, known, seed)


def check(each: Pass, module: IRModule, known: dict[str, list], seed: int) -> None:
    """Checks one pass on one program."""
    after = each(module)
    if after is module:
        return
    for name, cases in known.items():
        for arguments, expected in cases:
            try:
                result = interpret(after, name, *arguments)
            except StructIRError as error:
                result = error
            if not same(expected, result, each.tolerance):
                tolerance = each.tolerance  # the program may amplify rounding
                assert within_rounding(module, name, arguments, expected, result, tolerance), (
                    each.name,
                    seed,
                    name,
                    result,
                )
    if each.idempotent is True:
        again = each(after)
        assert again is after or structural_equal(again, after), (each.name, seed, "again")

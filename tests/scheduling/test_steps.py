"""Schedules as text are those that methods describe; errors show the step."""

from random import Random

import pytest

import structir
from structir.ir import structural_equal
from structir.loops.schedule.loop_tree import loop_tree
from structir.loops.schedule.refusal import ScheduleError
from structir.passes import pipeline
from structir.scheduling.steps import scheduled
from tests.loops.fuzzing import random_step
from tests.scheduling.programs import random_program
from tests.scheduling.test_timing import LAYERS


@pytest.mark.parametrize("seed", range(6))
def test_the_text_of_a_schedule_gives_the_same_program(seed: int) -> None:
    rng = Random(seed)
    module = structir.parse(random_program(rng))
    s = structir.schedule(module)
    for _ in range(12):
        names = s._ipython_key_completions_()
        try:
            if rng.random() < 0.3:
                s.fuse(rng.choice(names), rng.choice(names), loops=rng.choice([0, 1]))
            else:
                handle = s.kernel(rng.choice(names))
                assert loop_tree(handle.node)
                name, args = random_step(handle.node, rng)
                getattr(handle, name)(*args)
        except ScheduleError:
            continue
    assert structural_equal(scheduled(module, s.text()), s.apply())
    again = pipeline(str(pipeline(f"schedule{{steps={s.text()!r}}}")))
    assert structural_equal(again(module), s.apply()) or not s.text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("b.split(i1", "syntax error"),
        ("b.split(i1 8)", "syntax error"),
        ("3", "expected a step such as"),
        ("q = b.split(i1, 8)", "expected a step such as"),
        ("b", "expected a step such as"),
        ("b[0].split(8)", "expected a step such as"),
        ("b.split(i1, x + 1)", "expected a name or a literal"),
        ("b.split(*i1)", "expected a name or a literal"),
        ("b.split(i1, **2)", "parameters are"),
        ("foo(a, b)", r"expected `fuse\(first, second"),
        ("fuse(a)", r"expected `fuse\(first, second"),
        ("a.split(i1, 2); b.spilt(i1, 8)", "did you mean `split`"),
        ("b.undo()", "unknown primitive `undo`"),
        ("z.split(i1, 8)", "the program has these"),
        ("b.recipe(row)", "did you mean `rows`"),
        ("b.split(i1, 0)", "positive integer"),
    ],
)
def test_an_invalid_step_is_an_error_at_its_location(text: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message) as caught:
        pipeline(f"schedule{{steps={text!r}}}")(structir.parse(LAYERS))
    assert "steps:1:" in str(caught.value)

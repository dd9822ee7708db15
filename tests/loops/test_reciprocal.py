"""Reciprocals of divisors that a loop leaves unchanged."""

import numpy as np
import pytest

import structir
from structir.loops.primitives import find_primitive
from structir.loops.schedule.loop_tree import prepared
from structir.loops.schedule.refusal import ScheduleError
from tests.loops.refused import HEAD, computes, symbols_of
from tests.loops.refused_wrong_results import always
from tests.loops.running import arguments, parsed, run

VARYING = {
    "an assigned divisor": "d = T.float32(2.0)\nfor i in range(n):\n    for j in range(m):\n"
    "        out[i, j] = x[i, j] / d\n        d = d + 1.0",
    "an index": "for i in range(n):\n    for j in range(m):\n"
    "        out[i, j] = x[i, j] / T.float32(j + 1)",
}


@pytest.mark.parametrize("body", VARYING.values(), ids=VARYING)
def test_divisors_that_change_keep_their_division(
    body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    naive = prepared(parsed(HEAD + lines))
    reciprocal = find_primitive("reciprocal")
    with pytest.raises(ScheduleError) as caught:
        reciprocal(naive, "j")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "E1117" and len(diagnostic.notes) == 2 and diagnostic.hint
    monkeypatch.setattr("structir.loops.primitives.reciprocal._is_invariant", always)
    wrong = reciprocal(naive, "j")
    sizes = dict(zip(symbols_of(naive), (3, 4), strict=True))
    arrays = arguments(naive, sizes, 1)
    expected = run(naive, arrays, sizes)
    assert not computes(wrong, expected, arrays, sizes, 1)


def test_one_reciprocal_replaces_equal_divisors_and_augmented_divisions() -> None:
    source = """
    for i in range(n):
        d = T.float32(4.0)
        for j in range(m):
            out[i, j] = x[i, j] / d + 1.0 / d
            out[i, j] /= d
"""
    naive = prepared(parsed(HEAD + source.strip("\n")))
    after = find_primitive("reciprocal")(naive, "j")
    assert str(after).count("/") == 1
    sizes = dict(zip(symbols_of(naive), (3, 4), strict=True))
    arrays = arguments(naive, sizes, 1)
    assert np.array_equal(run(after, arrays, sizes)[0], run(naive, arrays, sizes)[0])
    with pytest.raises(ScheduleError, match="E1118"):
        find_primitive("reciprocal")(naive, "j", exact=True)


@pytest.mark.parametrize("divisor", ["2.0", "(2.0 + 3.0)", "T.float64(2.0)", "(2.0 * y[()])"])
def test_the_source_of_a_reciprocal_states_its_dtype(divisor: str) -> None:
    source = f"""
@I.kernel
def halves(
    x: R.Tensor((3,), "float64"), y: R.Tensor((), "float64"), out: R.Tensor((3,), "float64")
):
    for i in range(3):
        out[i] = x[i] / {divisor}
"""
    after = find_primitive("reciprocal")(prepared(parsed(source)), "i")
    assert structir.structural_equal(parsed(str(after)), after)


ROUNDED = {
    "an argument": "out[i, j] = T.floor(x[i, j] / d)",
    "a conversion": "out[i, j] = T.float32(T.int32(x[i, j] / d))",
    "a bounded quotient": "out[i, j] = T.floor(min(x[i, j] / d, 300.0))",
    "a name": "q = x[i, j] / d\nout[i, j] = T.floor(q)",
    "an element": "out[i, j] = x[i, j]\nout[i, j] /= d\nout[i, j] = T.floor(out[i, j])",
}


@pytest.mark.parametrize("body", ROUNDED.values(), ids=ROUNDED)
def test_quotients_that_are_rounded_to_integers_stay(
    body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "\n".join(f"            {line}" for line in body.splitlines())
    loops = "    d = T.float32(41.0)\n    for i in range(n):\n        for j in range(m):\n"
    naive = prepared(parsed(HEAD + loops + lines))
    reciprocal = find_primitive("reciprocal")
    with pytest.raises(ScheduleError, match="E1116"):
        reciprocal(naive, "j")
    monkeypatch.setattr("structir.loops.primitives.reciprocal._rounded_divisions", lambda _: ())
    wrong = reciprocal(naive, "j")
    sizes = dict(zip(symbols_of(naive), (1, 1), strict=True))
    arrays = [np.full_like(array, 41.0) for array in arguments(naive, sizes, 1)]
    assert run(naive, arrays, sizes)[0] == 1 and run(wrong, arrays, sizes)[0] == 0


ELEMENTS = """@I.kernel
def scale(
    x: R.Tensor(("n", "m"), "float32"),
    b: R.Tensor(("n",), "float32"),
    s: R.Tensor((), "float32"),
    out: R.Tensor(("n", "m"), "float32"),
):
    n = T.int64()
    m = T.int64()
    for i in range(n):
        for j in range(m):
            out[i, j] = x[i, j] / DIVISOR
"""


@pytest.mark.parametrize("divisor", ["b[i]", "s[()]", "(b[i] * s[()])"])
def test_elements_that_exist_in_all_iterations_are_divisors(divisor: str) -> None:
    naive = prepared(parsed(ELEMENTS.replace("DIVISOR", divisor)))
    after = find_primitive("reciprocal")(naive, "j")
    for sizes in ({"n": 3, "m": 4}, {"n": 3, "m": 0}):
        sizes = dict(zip(symbols_of(naive), sizes.values(), strict=True))
        arrays = arguments(naive, sizes, 1)
        expected, result = run(naive, arrays, sizes)[0], run(after, arrays, sizes)[0]
        np.testing.assert_allclose(result, expected, 1e-5)


@pytest.mark.parametrize("divisor", ["x[i, 3]", "b[i + 1]", "out[i, 0]"])
def test_other_elements_are_no_divisors(divisor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    naive = prepared(parsed(ELEMENTS.replace("DIVISOR", divisor)))
    with pytest.raises(ScheduleError, match="E1117"):
        find_primitive("reciprocal")(naive, "j")
    monkeypatch.setattr("structir.loops.primitives.reciprocal._is_invariant", always)
    wrong = find_primitive("reciprocal")(naive, "j")
    sizes = dict(zip(symbols_of(naive), (3, 4 if "out" in divisor else 0), strict=True))
    arrays = arguments(naive, sizes, 1)
    expected = run(naive, arrays, sizes)
    assert not computes(wrong, expected, arrays, sizes, 1)

"""Row variables at run time: how arguments bind them, and the errors of a mismatch."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import structir
from structir.errors import ShapeMismatchError, StructIRError
from structir.interpret.arguments import random_arguments
from structir.interpret.row_binding import bind_rows
from structir.ir.axes import RowVar

PROGRAM = structir.parse("""
@R.function
def main(
    x: R.Tensor(("*batch", "n", 8), "float32"),
    y: R.Tensor(("*batch", "n"), "float32"),
    w: R.Tensor((8, "2 * m"), "float32"),
    b: R.Tensor(("m",), "float32"),
) -> R.Tensor(("*batch", "n", "2 * m"), "float32"):
    m = T.int64()
    R.require("n % 2 == 0")
    h = R.matmul(x, w)
    g = R.nn.softmax(h)
    s = R.sum(g, axis=-1)
    t = R.expand_dims(R.add(s, y), -1)
    return R.multiply(g, t)
""")


def arrays(*shapes):
    random = np.random.default_rng(0)
    return [random.random(shape, dtype="float32") for shape in shapes]


@pytest.fixture(params=["interpreted", "compiled"], scope="module")
def main(request):
    if request.param == "interpreted":
        return lambda *args: structir.interpret(PROGRAM, "main", *args)
    return structir.compile(PROGRAM)["main"]


@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (2, 0, 3)])
def test_one_program_runs_at_every_rank(main, batch) -> None:
    x, y, w, b = arrays((*batch, 4, 8), (*batch, 4), (8, 6), (3,))
    h = np.exp(x @ w)
    g = h / h.sum(axis=-1, keepdims=True)
    expected = g * (g.sum(axis=-1) + y)[..., None]
    np.testing.assert_allclose(main(x, y, w, b), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((2, 4, 8), (3, 4), (8, 6), (3,)), r"y: .*expected .*2,?.*, found .*3"),
        (((2, 4, 8), (4,), (8, 6), (3,)), "y: expected at least 2 axes, found 1"),
        (((2, 4, 8), (2, 2, 4), (8, 6), (3,)), "y: expected 2 axes, found 3"),
        (((8,), (4,), (8, 6), (3,)), "x: expected at least 2 axes"),
        (((2, 4, 7), (2, 4), (8, 6), (3,)), "x: axis 2: expected 8, found 7"),
        (((2, 4, 8), (2, 6), (8, 6), (3,)), "y: axis 1: expected n = 4, found 6"),
        (((2, 4, 8), (2, 4), (8, 6), (4,)), "b: axis 0: expected m = 3, found 4"),
        (((2, 3, 8), (2, 3), (8, 6), (3,)), "R.require: expected n % 2 == 0, found n = 3"),
    ],
)
def test_arguments_that_do_not_fit(main, shapes, message) -> None:
    with pytest.raises(ShapeMismatchError, match=message):
        main(*arrays(*shapes))


def test_two_adjacent_rows_are_bound_by_another_argument() -> None:
    program = structir.parse(
        '@R.function\ndef main(x: R.Tensor(("*s", "*t")), y: R.Tensor(("*s", 5))):\n    return x\n'
    )
    x, y = arrays((2, 3, 4), (2, 3, 5))
    assert structir.interpret(program, "main", x, y).shape == (2, 3, 4)
    with pytest.raises(ShapeMismatchError, match=r"axes of \*s"):
        structir.interpret(program, "main", x, *arrays((3, 2, 5)))


@pytest.mark.parametrize("compiled", [False, True])
def test_axes_around_undetermined_rows_are_checked(compiled) -> None:
    program = structir.parse(
        "@R.function\n"
        'def main(x: R.Tensor((4, "*p", "n", "*q", "n + 1"))) -> R.Tensor():\n'
        "    return x\n"
    )
    run = (
        structir.compile(program)["main"]
        if compiled
        else partial(structir.interpret, program, "main")
    )
    assert run(*arrays((4, 2, 3, 5))).shape == (4, 2, 3, 5)
    with pytest.raises(ShapeMismatchError, match="axis 0: expected 4, found 3"):
        run(*arrays((3, 2, 5)))


def test_adjacent_undetermined_rows_have_the_same_axes_in_each_argument() -> None:
    program = structir.parse(
        '@R.function\ndef main(x: R.Tensor((2, "*p", "*q")), y: R.Tensor(("*p", "*q"))):\n'
        "    return x\n"
    )
    run = partial(structir.interpret, program, "main")
    assert run(*arrays((2, 3, 4), (3, 4))).shape == (2, 3, 4)
    with pytest.raises(ShapeMismatchError, match=r"axes of \*p, \*q: .*\(3, 4\), found \(3,\)"):
        run(*arrays((2, 3, 4), (3,)))


@pytest.mark.parametrize("compiled", [False, True])
def test_a_row_that_occurs_twice_is_bound_by_the_rank(compiled) -> None:
    program = structir.parse(
        '@R.function\ndef main(x: R.Tensor(("*p", 4, "*p"))) -> R.Tensor():\n    return x\n'
    )
    run = (
        structir.compile(program)["main"]
        if compiled
        else partial(structir.interpret, program, "main")
    )
    assert run(*arrays((2, 3, 4, 2, 3))).shape == (2, 3, 4, 2, 3)
    with pytest.raises(ShapeMismatchError, match=r"axes of \*p: expected \(2,\), found \(3,\)"):
        run(*arrays((2, 4, 3)))
    with pytest.raises(ShapeMismatchError, match=r"1 axes and 2 times those of \*p, found 2"):
        run(*arrays((2, 4)))


def assignments(axes, shape, rows):
    """Yields each binding of the row variables, of `rows` and new ones, that gives the shape."""
    if not axes:
        if not shape:
            yield rows
        return
    first, *rest = axes
    if isinstance(first, int):
        if shape and shape[0] == first:
            yield from assignments(rest, shape[1:], rows)
        return
    runs = [shape[:i] for i in range(len(shape) + 1)] if first not in rows else [rows[first]]
    for run in runs:
        if shape[: len(run)] == run:
            yield from assignments(rest, shape[len(run) :], rows | {first: run})


@given(
    st.lists(st.sampled_from([2, 3, RowVar("p"), RowVar("q")]), max_size=5),
    st.lists(st.integers(2, 3), max_size=5),
    st.none() | st.lists(st.integers(2, 3), max_size=2),
)
def test_shapes_that_have_an_assignment_are_accepted(axes, shape, bound) -> None:
    sizes = {} if bound is None else {RowVar("p"): tuple(bound)}
    possible = list(assignments(axes, tuple(shape), dict(sizes)))
    unbound = {axis for axis in axes if isinstance(axis, RowVar)} - set(sizes)
    try:
        equations = bind_rows([(tuple(axes), tuple(shape), "x")], sizes)
        accepted = all(e.declared == e.actual for e in equations)
    except ShapeMismatchError:
        accepted = False
    assert accepted or not possible
    if len(unbound) < 2:
        assert accepted == bool(possible)


def test_a_match_cast_binds_rows() -> None:
    program = structir.parse("""
@R.function
def main(x: R.Tensor(dtype="float32"), z: R.Tensor(dtype="float32")):
    y = R.match_cast(x, R.Tensor((*s, 3), "float32"))
    w = R.match_cast(z, R.Tensor((3, *s), "float32"))
    return y
""")
    x, z, wrong = arrays((2, 4, 3), (3, 2, 4), (3, 2, 5))
    assert structir.interpret(program, "main", x, z) is not None
    with pytest.raises(ShapeMismatchError, match=r"axes of \*s: expected \(2, 4\), found \(2, 5\)"):
        structir.interpret(program, "main", x, wrong)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_ragged_batch_is_no_array(compiled) -> None:
    program = structir.parse(
        '@R.function\ndef main(x: R.Tensor((10, "*", 3), "float32")):\n    return R.exp(x)\n'
    )
    run = structir.compile(program)["main"] if compiled else None
    with pytest.raises(StructIRError, match="a ragged axis"):
        (x,) = arrays((10, 4, 3))
        run(x) if run is not None else structir.interpret(program, "main", x)


def test_each_rank_is_compiled_once() -> None:
    program = structir.parse("""
@R.function
def main(x: R.Tensor(("*s", "n"), "float32"), w: R.Tensor(("n", 5), "float32")):
    return R.nn.relu(R.matmul(x, w))
""")
    executable = structir.compile(program)
    assert (
        "main has no kernels: it is compiled for each rank at its first call"
        in executable.source("main")
    )
    for shape in [(2, 4), (3, 4), (2, 3, 4), (7, 3, 4), (4,)]:
        x, w = arrays(shape, (4, 5))
        np.testing.assert_allclose(executable["main"](x, w), np.maximum(x @ w, 0), rtol=1e-5)
    assert executable.compile_count == 1 + 3
    assert executable.kernel_count > 0
    assert "def " in executable.source("main")


def test_a_rank_at_which_the_program_cannot_hold() -> None:
    program = structir.parse("""
@R.function
def main(x: R.Tensor(("*s",), "float32")):
    return R.permute_dims(x, axes=[1, 0])
""")
    main = structir.compile(program)["main"]
    assert main(*arrays((2, 3))).shape == (3, 2)
    with pytest.raises(StructIRError):
        main(*arrays((2, 3, 4)))


@pytest.mark.parametrize("seed", range(5))
def test_random_arguments_fit_rows(seed: int) -> None:
    args = random_arguments(PROGRAM["main"], seed, sizes={"n": 4})
    structir.interpret(PROGRAM, "main", *args)

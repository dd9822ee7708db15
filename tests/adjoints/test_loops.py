"""Gradients of `R.scan` against differences, and what is said of loops that have none."""

import numpy as np
import pytest

import structir
from structir import passes
from structir.errors import DiagnosticError
from structir.ir import structural_equal
from tests.adjoints.differences import assert_gradient

RNG = np.random.default_rng(3)
CELL = """
@R.function
def cell(
    h: R.Tensor(("k",), "float64"),
    x: R.Tensor(("k",), "float64"),
    w: R.Tensor(("k", "k"), "float64"),
):
    a = R.tanh(R.add(R.matmul(h, w), x))
    return (a, R.multiply(a, x))

"""
LOOPS = {
    "steps of unknown sizes": (
        """
@R.function
def cell(h: R.Tensor((), "float64"), x: R.Tensor(dtype="float64", ndim=1)):
    a = R.add(R.multiply(h, h), R.sum(x))
    return (a, a)

@R.function
def main(h: R.Tensor((), "float64"), xs: R.Tensor(("t", 2), "float64")):
    r = R.scan(cell, (h,), xs)
    return r[0]
""",
        ((), (3, 2)),
    ),
    "states, outputs and captured values": (
        CELL
        + """
@R.function
def main(
    h: R.Tensor((3,), "float64"),
    xs: R.Tensor(("t", 3), "float64"),
    w: R.Tensor((3, 3), "float64"),
):
    r = R.scan(cell, (h,), xs, (w,))
    return R.add(R.sum(r[0]), R.sum(R.square(r[1])))
""",
        ((3,), (4, 3), (3, 3)),
    ),
    "only outputs come back, one step": (
        CELL
        + """
@R.function
def main(
    h: R.Tensor((3,), "float64"),
    xs: R.Tensor(("t", 3), "float64"),
    w: R.Tensor((3, 3), "float64"),
):
    r = R.scan(cell, (h,), xs, (w,))
    return R.sum(R.exp(r[1]))
""",
        ((3,), (1, 3), (3, 3)),
    ),
    "two states, no captured value": (
        """
@R.function
def cell(
    a: R.Tensor((), "float64"),
    b: R.Tensor(("k",), "float64"),
    x: R.Tensor(("k",), "float64"),
):
    c = R.add(a, R.sum(R.multiply(b, x)))
    return (c, R.multiply(b, R.sin(x)), c)


@R.function
def main(
    a: R.Tensor((), "float64"),
    b: R.Tensor((2,), "float64"),
    xs: R.Tensor(("t", 2), "float64"),
):
    r = R.scan(cell, (a, b), xs)
    return R.add(R.multiply(r[0], R.sum(r[1])), R.sum(R.square(r[2])))
""",
        ((), (2,), (3, 2)),
    ),
    "a loop in a loop": (
        """
@R.function
def inner(a: R.Tensor((), "float64"), x: R.Tensor((), "float64"), w: R.Tensor((), "float64")):
    b = R.multiply(R.sin(R.add(a, x)), w)
    return (b, b)


@R.function
def outer(a: R.Tensor((), "float64"), row: R.Tensor(("m",), "float64"), w: R.Tensor((), "float64")):
    r = R.scan(inner, (a,), row, (w,))
    return (r[0], R.sum(R.square(r[1])))


@R.function
def main(
    a: R.Tensor((), "float64"),
    xs: R.Tensor(("n", "m"), "float64"),
    w: R.Tensor((), "float64"),
):
    r = R.scan(outer, (a,), xs, (w,))
    return R.add(r[0], R.sum(r[1]))
""",
        ((), (2, 3), ()),
    ),
}


@pytest.mark.parametrize(("text", "shapes"), LOOPS.values(), ids=LOOPS)
def test_loop_gradients_agree_with_finite_differences(
    text: str, shapes: tuple[tuple[int, ...], ...]
) -> None:
    module = structir.parse(text)
    with passes.PassContext([passes.VerifyIR(), passes.VerifyResults()]):
        made = passes.Gradient()(module)
    assert structural_equal(structir.parse(made.script()), made)
    assert_gradient(module, made, tuple(np.asarray(RNG.standard_normal(s)) for s in shapes))


def test_loops_over_steps_without_annotations() -> None:
    module = structir.infer(
        structir.parse("""
@R.function(private=True)
def step(s, x):
    n = R.multiply(R.add(s, x), x)
    return (n, n)

@R.function
def main(xs: R.Tensor(("t", "*s"), "float64")):
    return R.sum(R.square(R.scan(cls.step, (R.sum(xs, axis=0),), xs)[1]))
""")
    )
    assert_gradient(module, passes.Gradient()(module), (RNG.standard_normal((2, 3)),))


def test_integer_inputs_are_scanned() -> None:
    module = structir.parse("""
@R.function
def cell(
    h: R.Tensor((4,), "float64"),
    token: R.Tensor((), "int64"),
    table: R.Tensor((5, 4), "float64"),
):
    a = R.add(R.multiply(h, R.const(0.5, "float64")), R.take(table, token, axis=0))
    return (a, R.exp(a))


@R.function
def main(
    h: R.Tensor((4,), "float64"),
    tokens: R.Tensor(("t",), "int64"),
    table: R.Tensor((5, 4), "float64"),
):
    r = R.scan(cell, (h,), tokens, (table,))
    return R.sum(r[1])
""")
    h, table = RNG.standard_normal(4), RNG.standard_normal((5, 4))
    assert_gradient(module, passes.Gradient()(module), (h, np.array([1, 3, 1]), table))


def test_loops_over_run_time_functions_are_rejected() -> None:
    module = structir.parse("""
@R.function
def main(h: R.Tensor((), "float64"), xs: R.Tensor(("t",), "float64"), f: R.Object):
    r = R.scan(f, (h,), xs)
    last = R.match_cast(r, R.Tuple(R.Tensor((), "float64"), R.Tensor(("t",), "float64")))
    return last[0]
""")
    with pytest.raises(DiagnosticError, match="the called function is not known"):
        passes.Gradient(parameters="h")(module)


UNKNOWN_RANK = {
    "known state": ("s: R.Tensor((), 'float64'), r: R.Tensor(dtype='float64')", "R.sum(r)", ()),
    "unknown state": ("s: R.Tensor(dtype='float64'), r: R.Tensor(dtype='float64')", "r", None),
    "no annotation": ("s, r", "r", None),
}


@pytest.mark.parametrize("shape", [(3,), (3, 2), (3, 2, 4)])
@pytest.mark.parametrize("field", [0, 1])
@pytest.mark.parametrize("name", UNKNOWN_RANK)
def test_loops_over_tensors_whose_rank_is_known_at_run_time(
    name: str, field: int, shape: tuple[int, ...]
) -> None:
    params, element, state = UNKNOWN_RANK[name]
    start = "R.Tensor(dtype='float64')" if state is None else "R.Tensor((), 'float64')"
    module = structir.parse(f"""
@R.function
def main(x: R.Tensor(dtype="float64"), h: {start}, w: R.Tensor((), "float64")):
    @R.function
    def step({params}):
        t = R.tanh(R.add(R.multiply(s, w), {element}))
        return t, t
    y = R.scan(step, (h,), x)
    return R.sum(R.square(y[{field}]))
""")
    made = passes.Gradient()(module)
    rng = np.random.default_rng(1)
    h = rng.standard_normal(shape[1:] if state is None else state)
    assert_gradient(module, made, (rng.standard_normal(shape), h, np.array(0.7)))


def test_loops_whose_axes_are_unknown_are_rejected_with_an_edit() -> None:
    module = structir.parse("""
@R.function
def main(h: R.Tensor((), "float64"), o: R.Object):
    @R.function
    def step(h: R.Tensor((), "float64"), x: R.Tensor):
        a = R.add(h, R.sum(R.astype(x, "float64")))
        return a, a
    xs = R.match_cast(o, R.Tensor)
    return R.scan(step, (h,), xs)[0]
""")
    with pytest.raises(DiagnosticError, match=r'known first axis[^$]*help: state.*R.Tensor\(\("n"'):
        passes.Gradient(parameters="h")(module)

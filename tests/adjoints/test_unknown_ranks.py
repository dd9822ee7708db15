"""Gradients of functions with row variables and of unknown rank, against finite differences."""

import numpy as np
import pytest

import structir
from structir import passes
from structir.errors import DiagnosticError
from tests.adjoints.differences import assert_gradient, leaves, slope

RNG = np.random.default_rng(3)
PROGRAMS = {
    "broadcast": (
        'x: R.Tensor(("*s", "n"), "float64"), b: R.Tensor(("n",), "float64")',
        "R.sum(R.multiply(R.add(x, b), R.max(x, axis=-1, keepdims=True)))",
        ("*3", "3"),
    ),
    "layers": (
        'x: R.Tensor(("*s", "n"), "float64"), w: R.Tensor(("n", "m"), "float64"), '
        'g: R.Tensor(("m",), "float64")',
        "R.sum(R.tanh(R.nn.layer_norm(R.matmul(x, w), g, g, axes=[-1])))",
        ("*3", "34", "4"),
    ),
    "einsum": (
        'x: R.Tensor(("*b", "i", "k"), "float64"), y: R.Tensor(("*b", "k", "j"), "float64")',
        'R.sum(R.square(R.einsum((x, y), subscripts="*b i k; *b k j -> *b j i")))',
        ("*34", "*42"),
    ),
    "map": (
        'x: R.Tensor(("n", "*s"), "float64")',
        "R.sum(R.square(R.map(R.tanh, x)))",
        ("3*",),
    ),
    "vmap": (
        'x: R.Tensor(("*s", "n", "k"), "float64"), y: R.Tensor(("n", "*s"), "float64"), '
        'w: R.Tensor(("k",), "float64")',
        "R.sum(R.vmap(lambda a, b, c: R.sum(R.multiply(a, c)) * R.sum(R.square(b)), "
        "in_axes=(-2, 0, None))(x, y, w))",
        ("*32", "3*", "2"),
    ),
    "fold": (
        'x: R.Tensor(("n", "*s"), "float64"), i: R.Tensor(("*s",), "float64")',
        "R.sum(R.square(R.reduce(lambda a, b: R.multiply(R.tanh(a), b), i, x)))",
        ("3*", "*"),
    ),
    "unknown": (
        'x: R.Tensor(dtype="float64"), y: R.Tensor(dtype="float64", ndim=1)',
        "R.sum(R.multiply(R.exp(x), R.mean(R.square(y))))",
        ("*", "4"),
    ),
}


def arguments(shapes: tuple[str, ...], rank: int) -> tuple[np.ndarray, ...]:
    """Returns arrays; `*` stands for axes of the row variable."""
    row = "23"[:rank]
    return tuple([RNG.standard_normal([int(n) for n in s.replace("*", row)]) for s in shapes])


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_at_several_ranks(name: str) -> None:
    params, result, shapes = PROGRAMS[name]
    module = structir.parse(f"@R.function\ndef main({params}):\n    return {result}\n")
    made = structir.parse(passes.Gradient()(module).script())
    for rank in (0, 1, 2):
        values = arguments(shapes, rank)
        _, gradients = structir.interpret(made, "main_adjoint", *values)
        ways = [RNG.standard_normal(value.shape) for value in values]
        own = sum([float((g * w).sum()) for g, w in zip(leaves(gradients), ways, strict=True)])

        def original(*moved: np.ndarray) -> float:
            return structir.interpret(module, "main", *moved)

        assert own == pytest.approx(slope(original, values, ways), rel=1e-5, abs=1e-7)


def test_branches_and_calls_are_compiled() -> None:
    module = structir.parse("""
@R.function(private=True)
def f(x: R.Tensor(("*s", "k"), "float64")):
    return R.nn.softmax(R.exp(x), axis=-1)

@R.function
def main(x: R.Tensor(("*s", "k"), "float64"), c: R.Tensor((), "bool")):
    if c:
        y = f(x)
    else:
        y = R.square(x)
    return R.sum(R.square(y))
""")
    gradient = passes.Gradient()(module)
    assert_gradient(module, gradient, (RNG.standard_normal((2, 3)), np.array(True)))


@pytest.mark.parametrize(
    ("params", "result", "message"),
    [
        (
            'x: R.Tensor(dtype="float64")',
            "R.sum(R.nn.batch_norm(x, x, x, x, x, axis=1)[0])",
            "batch_norm: not differentiable: its gradient needs operands of known rank",
        ),
        (
            'x: R.Tensor(dtype="float64"), g: R.Tensor(("n",), "float64")',
            "R.sum(R.nn.rms_norm(x, g, axes=[0]))",
            "expected negative axes where the rank of data is unknown",
        ),
        (
            'x: R.Tensor(("n", "*s"), "float64"), w: R.Tensor(("*s",), "float64")',
            "R.sum(R.map(lambda a: R.multiply(a, w), x))",
            "or captures values; help: pass these as operands",
        ),
    ],
)
def test_gradients_that_need_a_known_rank_are_rejected(
    params: str, result: str, message: str
) -> None:
    module = structir.parse(f"@R.function\ndef main({params}):\n    return {result}\n")
    with pytest.raises(DiagnosticError, match=message):
        passes.Gradient(parameters="x")(module)


def test_a_result_of_fewer_known_sizes_than_its_function_has() -> None:
    module = structir.parse("""
@R.function
def wide(x: R.Tensor(("n",), "float64"), y: R.Tensor(("m",), "float64")):
    return R.multiply(x, R.multiply(y, y))

@R.function
def main(x: R.Tensor(("n",), "float64"), y: R.Tensor(("m",), "float64")):
    r: R.Tensor(("_",), "float64") = cls.wide(x, y)
    return R.sum(R.square(r))
""")
    arguments = (np.array([0.5, -1.5, 2.0]), np.array([1.5]))
    assert_gradient(module, passes.Gradient()(module), arguments)
